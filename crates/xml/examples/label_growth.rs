//! How long labels become under insertions of four kinds, and how many nodes are relabelled, beside
//! range labels: `cargo run --release -p nandu-xml --example label_growth [COUNT]`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use nandu_xml::label::Label;
use nandu_xml::label::growth::Insertions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let parent = Label::document().first_child()?;
    println!(
        "{count} siblings            bytes a label  longest  crowds  relabelled  range labels"
    );
    for insertions in Insertions::ALL {
        let growth = insertions.run(&parent, count)?;
        #[allow(clippy::cast_precision_loss, reason = "a mean of bytes in a report")]
        let mean = growth.label_bytes as f64 / growth.count.max(1) as f64;
        println!(
            "{:<24} {mean:>13.1} {:>8} {:>7} {:>11} {:>13}",
            insertions.label(),
            growth.longest_bytes,
            growth.crowd_count,
            growth.relabelled_count,
            insertions.range_relabelled_count(count)
        );
    }
    Ok(())
}
