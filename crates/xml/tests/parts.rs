//! Expressions that are answered with a part of the document in memory: what looks up, beside or at places.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use nandu_xml::xpath::{Access, Found, Namespaces, QueryLimits, QueryPlan, parse, query};
use nandu_xml::{Document, ImportOptions, IndexDefinition, MappingKind, import_with};

/// What looks up, beside or at places needs no more memory than the elements in which that lies.
#[test]
fn what_is_above_or_in_a_place_is_found_with_a_part_in_memory() {
    let item = |order: usize, item: usize| format!("<item n='{item}'><v>{order}.{item}</v></item>");
    let order = |order: usize| {
        let items: String = (0..1 + order % 4).map(|number| item(order, number)).collect();
        format!("<order id='{order}'><list>{items}</list><note/><end>{order}</end></order>")
    };
    let orders: String = (0..400).map(order).collect();
    let text = format!("<shop><stock><item n='9'><v>none</v></item></stock>{orders}</shop>");
    let indexes = ["elements", "text://v"].map(|it| IndexDefinition::parse(it, &Namespaces::new()));
    let indexes: Vec<_> = indexes.into_iter().map(Result::unwrap).collect();
    for mapping in MappingKind::ALL {
        let database = common::database();
        let mut write = database.write().unwrap();
        let options = ImportOptions { mapping, indexes: indexes.clone(), ..Default::default() };
        import_with(&mut write, "doc", &options, ("text", text.as_bytes()), &mut ()).unwrap();
        write.commit().unwrap();
        let read = database.read();
        let document = Document::open(&read, "doc").unwrap();
        let asked = |text: &str, fragment_bytes: usize, is_chosen: bool| {
            let (mut found, names) = (Vec::new(), Namespaces::new());
            let mut plan = QueryPlan::new(&parse(text).unwrap(), &document, &names).unwrap();
            if is_chosen {
                plan = plan.choose(&read, &document, &names).unwrap();
            }
            let with = (&names, QueryLimits { fragment_bytes });
            let answered = query(&read, &document, &plan, with, &|| false, &mut |part| {
                let Found::Node(fragment, node) = part else { panic!("nodes are asked for") };
                found.push((fragment.name(node).written(), fragment.string(node)));
                Ok(())
            });
            answered.unwrap_or_else(|error| panic!("{text}: {error}"));
            (found, matches!(&plan.access, Access::Found(_)))
        };
        for (text, count) in [
            ("//item/ancestor::order/@id", 400),
            ("//v[. = '77.1']/ancestor::order/@id", 1),
            ("//v[. = '77.1']/../..", 1),
            ("//item[ancestor::order/@id = 8]/v", 1),
            ("//item[not(ancestor::order)]/v", 1),
            ("//v/ancestor::list/item[last()]/@n", 400),
            ("//list/following-sibling::note", 400),
            ("//list/following-sibling::end[. > 390]", 9),
            ("/shop/order[last()]/end", 1),
            ("/shop/order[position() = last()]/@id", 1),
            ("/shop/order[position() <= 3]/end", 3),
            ("/shop/order[position() > 398]/end", 2),
            ("//order/list/item[last()]/v", 400),
            ("//stock/item[last()]/v", 1),
            ("//stock/item[position() > 1]/v", 0),
        ] {
            let whole = asked(&format!("({text})[true()]"), 256 << 20, false).0;
            assert_eq!(whole.len(), count, "{text}");
            for is_chosen in [false, true] {
                let (found, is_by_index) = asked(text, 8_000, is_chosen);
                assert_eq!(found, whole, "{text} {is_chosen}");
                // Ancestors follow from the label that the index gives, places from that of what they are in.
                let is_known = text.contains("77.1") || text.contains("//stock/");
                assert_eq!(is_by_index, is_chosen && is_known, "{text}");
            }
        }
    }
}
