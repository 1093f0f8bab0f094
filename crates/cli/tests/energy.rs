//! Joules: of drives, hosts and meters, each with who told it, and nothing where nobody does.

use crate::common::{failure_of, run, stdout_of};
use serde_json::Value;
use std::fs;
use std::path::Path;

const YCSB: &str = "bench ycsb --workload c --records 500 --operations 300 --memory 256KiB";

fn text_of(directory: &Path, words: &str) -> String {
    stdout_of(directory, &words.split(' ').collect::<Vec<_>>())
}

fn json_of(directory: &Path, words: &str) -> Value {
    serde_json::from_str(&text_of(directory, &format!("{words} --json"))).unwrap()
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} of {value}"))
}

#[test]
fn a_simulated_drive_tells_its_joules_by_part_and_over_time() {
    let directory = tempfile::tempdir().unwrap();
    let words = format!("{YCSB} --device sim:supertalent-duradrive");
    let document = json_of(directory.path(), &words);
    let energy = &document["energy"];
    assert_eq!(
        (energy["source"].as_str(), document["meter"].as_str()),
        (Some("model"), Some("none"))
    );
    assert_eq!(document["host"], Value::Null);
    // It draws 0.9 W at work and nothing idle, and one client has it at work all the time.
    let [joules, seconds] = ["/joules", "/seconds"].map(|path| number(energy, path));
    assert!((joules / (0.9 * seconds) - 1.0).abs() < 0.01, "{energy}");
    assert_eq!(number(energy, "/part_joules/active"), joules);
    let per_joule = number(energy, "/operations_per_joule");
    assert!((per_joule * joules - 300.0).abs() < 1e-6, "{energy}");
    let watts = energy["watts_over_time"]["watts"].as_array().unwrap();
    assert!((1..=32).contains(&watts.len()), "{energy}");
    assert!(watts.iter().all(|watts| (0.0..0.91).contains(&watts.as_f64().unwrap())), "{energy}");
    assert_eq!(number(&document, "/energy_pj"), (joules * 1e12).round());
    let text = text_of(directory.path(), &words);
    assert_eq!(
        text.lines().filter(|line| line.starts_with("energy, model: ")).count(),
        1,
        "{text}"
    );
}

#[test]
fn a_drive_without_power_figures_tells_no_joules() {
    let directory = tempfile::tempdir().unwrap();
    let words = format!("{YCSB} --device sim:hama");
    let document = json_of(directory.path(), &words);
    assert_eq!((&document["energy"], &document["energy_pj"]), (&Value::Null, &Value::Null));
    assert_eq!(document["energy_without"], serde_json::json!(["sim:hama"]));
    let text = text_of(directory.path(), &words);
    assert!(text.contains("energy: none, sim:hama tells nothing"), "{text}");
}

#[test]
fn of_two_drives_the_one_is_named_that_tells_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let of = |log: &str, host: &str| {
        format!(
            "{} --device sim:wd800aajs --log sim:{log}{host}",
            YCSB.replace("workload c", "workload a")
        )
    };
    let words = of("hama", " --host s004-disk");
    let document = json_of(directory.path(), &words);
    assert_eq!(document["energy_of"], serde_json::json!(["host"]), "{document}");
    assert_eq!(document["energy_without"], serde_json::json!(["sim:hama"]));
    let text = in_one_line(&text_of(directory.path(), &words));
    assert!(text.contains("; no drive is in it, since sim:hama tells nothing"), "{text}");
    let both = json_of(directory.path(), &of("optane-lines", ""));
    assert_eq!(both["energy_of"], serde_json::json!(["drives"]), "{both}");
    assert_eq!(both["energy_without"], serde_json::json!([]));
    // One is looked at in between, so that there is no course of both.
    assert_eq!(both["energy"]["watts_over_time"], Value::Null, "{both}");
}

#[test]
fn a_host_adds_its_base_load_and_its_processor() {
    let directory = tempfile::tempdir().unwrap();
    let words = format!("{YCSB} --processor-time 1ms --device sim:wd800aajs --host s004-disk");
    let energy = &json_of(directory.path(), &words)["energy"];
    let seconds = number(energy, "/seconds");
    assert!((number(energy, "/part_joules/base") - 37.5 * seconds).abs() < 1e-6, "{energy}");
    // One of two cores for a millisecond of each operation, at 35 W more for both.
    let processor = 10.0 * seconds + 17.5 * 0.3;
    assert!((number(energy, "/part_joules/processor") - processor).abs() < 1e-6, "{energy}");
    let parts = energy["part_joules"].as_object().unwrap();
    let sum: f64 = parts.values().map(|joules| joules.as_f64().unwrap()).sum();
    assert!((sum / number(energy, "/joules") - 1.0).abs() < 1e-9, "{energy}");
    let unknown = failure_of(directory.path(), &["bench", "ycsb", "--host", "s004-disc"], 2);
    assert!(unknown.contains("did you mean `s004-disk`?"), "{unknown}");
}

#[test]
fn clients_compute_on_the_cores_of_the_host_and_its_processor_draws_its_most_at_the_most() {
    let directory = tempfile::tempdir().unwrap();
    let words = format!(
        "{YCSB} --clients 16 --processor-time 10ms --device sim:supertalent-duradrive --host s004-flash"
    );
    let document = json_of(directory.path(), &words);
    let energy = &document["energy"];
    assert_eq!((number(&document, "/core_count"), &document["host_note"]), (2.0, &Value::Null));
    assert_eq!(document["energy_of"], serde_json::json!(["drives", "host"]));
    let seconds = number(energy, "/seconds");
    assert!(seconds >= 300.0 * 0.01 / 2.0, "two cores compute 10 ms for each of 300: {energy}");
    let watts = number(energy, "/part_joules/processor") / seconds;
    assert!((40.0..=45.0).contains(&watts), "{watts} W of a processor of 45");
    let more = words.clone() + " --cores 3";
    let refused = failure_of(directory.path(), &more.split(' ').collect::<Vec<_>>(), 2);
    assert!(refused.contains("--cores 3: the host s004-flash has 2 cores"), "{refused}");
    let fewer = json_of(directory.path(), &(words + " --cores 1"));
    assert!(number(&fewer, "/energy/seconds") >= 3.0, "{fewer}");
}

#[test]
fn thought_after_the_last_operation_is_nobodys() {
    let directory = tempfile::tempdir().unwrap();
    let words = "bench ycsb --workload a --records 2000 --operations 200 --clients 100 --memory 256KiB \
                 --think-time 1000s --set durability=none --device sim:nvme-apst-2024";
    let document = json_of(directory.path(), words);
    let energy = &document["energy"];
    let elapsed = number(&document, "/elapsed_ns") / 1e9;
    assert!((number(energy, "/seconds") / elapsed - 1.0).abs() < 1e-9, "one span: {energy}");
    assert!((1000.0..1001.0).contains(&elapsed), "one thought between two operations: {elapsed}");
    // In its lowest state the drive draws 5 mW; what it has to write back takes a moment.
    let watts = number(energy, "/mean_watts");
    assert!((0.005..0.02).contains(&watts), "{energy}");
}

#[test]
fn a_page_and_a_table_of_a_run_have_its_joules() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let words = format!("{YCSB} --device sim:supertalent-duradrive --host s004-flash --out out");
    text_of(path, &words);
    for file in ["report.html", "table.md"] {
        let text = fs::read_to_string(path.join("out/ycsb-c").join(file)).unwrap();
        assert!(text.contains("energy in 1 step, model: "), "{file}: {text}");
        assert!(
            text.contains(" W on average, ") && text.contains(" operations/J (active "),
            "{file}"
        );
    }
    fs::create_dir(path.join("data")).unwrap();
    let samples: String = (0..=3600).map(|second| format!("{second},60\n")).collect();
    fs::write(path.join("plug.csv"), samples).unwrap();
    text_of(path, &format!("{YCSB} --device data --meter plug.csv --out out"));
    let text = fs::read_to_string(path.join("out/ycsb-c/outcome.json")).unwrap();
    let outcome: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcome["energy"][0]["source"], "meter", "{text}");
    let page = fs::read_to_string(path.join("out/ycsb-c/report.html")).unwrap();
    assert!(page.contains("energy in 1 step, meter: "), "{page}");
}

/// What is told in sentences that end wherever a line is full.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn on_a_disk_a_host_is_a_model_without_the_drive() {
    let directory = tempfile::tempdir().unwrap();
    let words = format!("{YCSB} --host desktop-2024");
    let text = in_one_line(&text_of(directory.path(), &words));
    assert!(text.contains("no drive is in it, since . tells nothing"), "{text}");
    assert!(text.contains("meter: none, "), "{text}");
    let document = json_of(directory.path(), &words);
    assert_eq!(document["energy_of"], serde_json::json!(["host"]), "{document}");
    assert_eq!(json_of(directory.path(), YCSB)["energy_of"], serde_json::json!([]));
    assert_eq!(json_of(directory.path(), YCSB)["energy"], Value::Null);
    assert!(document["meter"] != "none" || document["meter_note"].is_string(), "{document}");
}

#[test]
fn a_meters_file_is_read_and_what_is_wrong_with_it_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let place = path.join("data");
    fs::create_dir(&place).unwrap();
    let samples: String = (0..=3600).map(|second| format!("{second},60\n")).collect();
    fs::write(path.join("plug.csv"), format!("time,W\n{samples}")).unwrap();
    let words = format!("{YCSB} --device data --meter plug.csv");
    let document = json_of(path, &words);
    let meter = &document["meter"];
    assert_eq!((meter["source"].as_str(), &document["energy"]), (Some("meter"), &Value::Null));
    assert!((number(meter, "/mean_watts") - 60.0).abs() < 1e-6, "{meter}");
    assert!(text_of(path, &words).contains("energy, meter: "));

    // What is wrong already is told before the run, and what is missing after it.
    fs::write(path.join("broken.csv"), "0,60\n1,60\n2,hot\n").unwrap();
    let broken = format!("{YCSB} --device data --meter broken.csv");
    let said = failure_of(path, &broken.split(' ').collect::<Vec<_>>(), 2);
    assert!(said.contains("broken.csv:3: watts is `hot`"), "{said}");
    fs::write(path.join("short.csv"), "0,60\n0.000001,60\n").unwrap();
    let short = format!("{YCSB} --device data --meter short.csv");
    let output = run(path, &short.split(' ').collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the meter's samples go from 0 s to "), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("operations/s"), "the run is told");

    let simulated = ["bench", "ycsb", "--device", "sim:hama", "--meter", "plug.csv"];
    assert!(failure_of(path, &simulated, 2).contains("no meter sees a simulated drive"));
    let missing = failure_of(path, &["bench", "ycsb", "--meter", "none.csv"], 2);
    assert!(missing.contains("none.csv: No such file"), "{missing}");
    let folder = failure_of(path, &["bench", "ycsb", "--meter", "data"], 2);
    assert!(folder.contains("data: is no file"), "{folder}");
}

#[test]
fn probe_and_sim_tell_joules_of_what_they_measure() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let probe = "probe sim:wd800aajs --size 1GB --request-count 20 --request-bytes 4KiB";
    let energy = &json_of(path, probe)["energy"];
    assert_eq!(energy["source"], "model");
    let watts = number(energy, "/mean_watts");
    assert!((7.5..12.5).contains(&watts), "{energy}");
    assert!(number(energy, "/part_joules/seek") > 0.0);
    assert!(text_of(path, probe).contains("energy, model: "));
    let simulated = json_of(path, probe);
    assert_eq!(simulated["meter"], "none", "{simulated}");
    let note = simulated["meter_note"].as_str().unwrap();
    assert!(note.contains("no meter sees a simulated drive"), "{note}");
    let real = "probe . --size 4MiB --request-bytes 4KiB --duration 20ms --queue-depth 1";
    let report = json_of(path, real);
    assert!(report["meter"] != "none" || report["meter_note"].is_string(), "{report}");
    assert!(in_one_line(&text_of(path, real)).contains("meter"));

    let sim = "sim myers_slc --workload uniform:read=50 --physical-erase-blocks 64 --requests 1000";
    let energy = &json_of(path, sim)["energy"];
    assert_eq!(energy["source"], "model");
    let parts = energy["part_joules"].as_object().unwrap();
    assert!(parts.keys().all(|part| ["cells", "erase", "transfer"].contains(&part.as_str())));
    assert!(number(energy, "/operations_per_joule") > 0.0 && number(energy, "/mean_watts") > 0.0);
}

#[test]
fn a_drive_tells_what_it_does_for_its_money_and_how_long_it_lasts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let load = "bench ycsb --workload a --records 500 --operations 300 --memory 256KiB";
    let words = format!("{load} --device sim:supertalent-duradrive");
    let document = json_of(path, &words);
    let worth = &document["worth"];
    assert_eq!(
        (&worth["price"]["cents"], &worth["price"]["date"]),
        (&11_200.into(), &"2008".into())
    );
    let rate = number(worth, "/operations_per_second_per_dollar");
    assert!((rate * 112.0 / number(&document, "/operations_per_second") - 1.0).abs() < 1e-9);
    let years = number(worth, "/years");
    assert!(years > 0.0 && worth["is_wear_known"] == true, "{worth}");
    let all = number(worth, "/operations_per_dollar");
    let lasts = years.min(5.0) * 8766.0 * 3600.0;
    assert!((all / (rate * lasts) - 1.0).abs() < 1e-9, "{worth}");
    let text = text_of(path, &words);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let text = in_one_line(&text);
    let (_, worth) = text.split_once(" worth: ").unwrap();
    let (worth, _) = worth.split_once(" years of this load").unwrap();
    assert!(worth.contains("$112.00 (2008, [C])"), "{text}");

    let without = format!("{load} --device sim:hama");
    assert_eq!(json_of(path, &without)["worth"]["price"], Value::Null);
    let price = "[drives.hama]\ncents = 100\ndate = \"2026\"\nsource = \"[M] a guess\"\n";
    fs::write(path.join("mine.toml"), price).unwrap();
    let worth = json_of(path, &format!("{without} --prices mine.toml"))["worth"].clone();
    assert_eq!(worth["price"]["source"], "[M] a guess", "{worth}");
    fs::create_dir(path.join("data")).unwrap();
    assert_eq!(json_of(path, &format!("{load} --device data"))["worth"], Value::Null);
    let refused = format!("{load} --device data --prices mine.toml");
    let refused = failure_of(path, &refused.split(' ').collect::<Vec<_>>(), 2);
    assert!(refused.contains("nobody knows which drive is below a directory"), "{refused}");
}

#[test]
fn probe_sim_and_run_tell_money_and_life() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let probe = "probe sim:wd800aajs --size 1GB --request-count 20 --request-bytes 4KiB";
    let worth = json_of(path, probe)["worth"].clone();
    assert_eq!((&worth["years"], &worth["is_wear_known"]), (&Value::Null, &true.into()));
    assert!(number(&worth, "/operations_per_dollar") > 0.0, "{worth}");
    assert!(text_of(path, probe).contains("\nworth: "));
    let real = "probe . --size 4MiB --request-bytes 4KiB --duration 20ms --queue-depth 1";
    assert_eq!(json_of(path, real)["worth"], Value::Null);

    let sim = "sim myers_slc --workload uniform --physical-erase-blocks 64 --requests 20000";
    let report = json_of(path, sim);
    let [mean, seconds] = ["/erase_count/mean", "/simulated_ns"].map(|path| number(&report, path));
    let programs = report.pointer("/nand/program").and_then(Value::as_object).unwrap();
    let programs: f64 = programs.values().map(|count| count.as_f64().unwrap()).sum();
    let worn = mean.max(programs / number(&report, "/config/physical_pages"));
    let years = 100_000.0 / worn * seconds / 1e9 / (8766.0 * 3600.0);
    assert!((number(&report, "/lifetime/years") / years - 1.0).abs() < 1e-9, "{report}");
    assert!(text_of(path, sim).contains(" years of this load"));
    // Nothing is erased yet, and it wears all the same; where nothing is written, nobody knows.
    let begun = json_of(path, &format!("{} --logical-pages 2048", sim.replace("20000", "60")));
    assert_eq!(number(&begun, "/erase_count/max"), 0.0, "{begun}");
    assert!(number(&begun, "/lifetime/years") > 0.0, "{begun}");
    let read = json_of(path, &sim.replace("uniform", "uniform:read=100").replace("20000", "200"));
    assert_eq!(read.get("lifetime"), Some(&Value::Null), "{read}");

    text_of(path, "run s004/prices --out out -q");
    let folder = path.join("out/s004/prices");
    let outcome = fs::read_to_string(folder.join("outcome.json")).unwrap();
    let outcome: Value = serde_json::from_str(&outcome).unwrap();
    let drives: Vec<&str> = outcome["worth"]
        .as_array()
        .unwrap()
        .iter()
        .map(|worth| worth["drive"].as_str().unwrap())
        .collect();
    assert_eq!(drives, ["supertalent-duradrive", "wd800aajs"], "{outcome}");
    assert!(number(&outcome, "/worth/0/years") > 0.0 && outcome["worth"][1]["years"].is_null());
    assert!(outcome["energy"][0]["watts_over_time"]["watts"].is_array(), "{outcome}");
    let of_drives: Vec<(&str, f64)> = outcome["drive_energy"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (of["drive"].as_str().unwrap(), number(of, "/joules")))
        .collect();
    let of_steps: f64 =
        outcome["energy"].as_array().unwrap().iter().map(|step| number(step, "/joules")).sum();
    let [("sim:supertalent-duradrive", flash), ("sim:wd800aajs", disk)] = of_drives[..] else {
        panic!("{of_drives:?}")
    };
    assert!(((flash + disk) / of_steps - 1.0).abs() < 1e-9 && disk > 10.0 * flash, "{outcome}");
    let table = fs::read_to_string(folder.join("table.md")).unwrap();
    let life = table.split("## Money and life").nth(1).unwrap();
    assert!(life.contains("- wd800aajs: ") && life.contains("at $12.00 (2008, [C])"), "{life}");
    assert_eq!(life.matches("; merit ").count(), 2, "{life}");
    assert!(life.contains(", operations/s x years / dollars a year\n"), "{life}");
    let merit = &outcome["worth"][1]["merit"];
    let parts = ["operations_per_second", "cents_per_year", "watts", "years"];
    let [rate, cents, watts, years] = parts.map(|part| number(merit, &format!("/{part}")));
    assert!((7.5..12.5).contains(&watts) && years == 5.0, "{merit}");
    assert!((cents / (1200.0 / 5.0 + watts * 8.766 * 30.0) - 1.0).abs() < 1e-9, "{merit}");
    assert!((number(merit, "/figure") / (rate * 500.0 / cents) - 1.0).abs() < 1e-9, "{merit}");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("at $12.00") && page.contains("Watts over time"), "{page}");
    for text in [&table, &page] {
        assert!(text.contains("energy of sim:wd800aajs in 1 step, model: "), "{text}");
        assert!(text.contains(" W in intervals of "), "{text}");
    }
    let report = json_of(path, "run s004/prices --out out -q");
    assert_eq!((&report["meter"], report["meter_note"].is_string()), (&"none".into(), true));
}
