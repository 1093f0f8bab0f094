//! What a run needs before it starts: the environment of Python with the peers at fixed versions,
//! and the tables in every format, made once and kept in the directory.
//!
//! ```text
//!   DIRECTORY/environment/   requirements.txt is what was installed
//!             scripts/       as they stand in this program
//!             temporary/     what peers spill into
//!             sf2-seed1/     TABLE.parquet TABLE.default.parquet TABLE.duckdb tables.sqlite
//!                            nandu-TABLE/       a table with the one that it is joined with
//! ```
//!
//! 1. A file under its own name is whole: it is made under another and renamed.

use super::contender::Format;
use super::nandu;
use super::query::{Query, TABLES};
use crate::Failure;
use crate::stock::{complete, failure_at, make_directory, python, write};
use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `pip` installs; the figures are those of these versions.
pub(crate) const REQUIREMENTS: &str = "duckdb==2.0.0\ndatafusion==55.0.0\ntpchgen-cli==4.0.0\n";

/// The scripts by name.
const SCRIPTS: [(&str, &str); 5] = [
    ("harness.py", include_str!("peers/harness.py")),
    ("duckdb_join.py", include_str!("peers/duckdb_join.py")),
    ("datafusion_join.py", include_str!("peers/datafusion_join.py")),
    ("sqlite_join.py", include_str!("peers/sqlite_join.py")),
    ("prepare.py", include_str!("peers/prepare.py")),
];

/// The directory with all of it.
pub(crate) struct Stock {
    directory: PathBuf,
}

impl Stock {
    /// Writes the scripts into `directory` and installs the peers where they are not.
    ///
    /// # Errors
    /// If Python, its `venv` or the registry are missing, or the directory cannot be written.
    pub(crate) fn open(directory: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(directory).map_err(|error| failure_at(directory, &error))?;
        // Processes of a run have other current directories.
        let directory = directory.canonicalize().map_err(|error| failure_at(directory, &error))?;
        let stock = Self { directory };
        let scripts = stock.scripts();
        make_directory(&scripts)?;
        make_directory(&stock.temporary())?;
        for (name, text) in SCRIPTS {
            write(&scripts.join(name), text)?;
        }
        python::install(&stock.environment(), REQUIREMENTS)?;
        Ok(stock)
    }

    /// The directory that the tables lie in.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn environment(&self) -> PathBuf {
        self.directory.join("environment")
    }

    /// The interpreter with the peers.
    pub(crate) fn python(&self) -> PathBuf {
        python::interpreter(&self.environment())
    }

    /// The directory of the scripts.
    pub(crate) fn scripts(&self) -> PathBuf {
        self.directory.join("scripts")
    }

    /// Where peers spill.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.directory.join("temporary")
    }

    /// Removes what lies where peers spill.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub(crate) fn clear_temporary(&self) -> Result<(), Failure> {
        let temporary = self.temporary();
        std::fs::remove_dir_all(&temporary).map_err(|error| failure_at(&temporary, &error))?;
        make_directory(&temporary)
    }

    /// Where the tables of `scale_factor` are.
    pub(crate) fn data(&self, scale_factor: f64, seed: u64) -> PathBuf {
        self.directory.join(format!("sf{scale_factor}-seed{seed}"))
    }

    /// Makes what is missing of the tables of `query` in `formats`.
    ///
    /// # Errors
    /// If the generator or a peer fails.
    pub(crate) fn make_tables(
        &self,
        scale_factor: f64,
        seed: u64,
        query: Query,
        formats: &BTreeSet<Format>,
    ) -> Result<(), Failure> {
        let data = self.data(scale_factor, seed);
        make_directory(&data)?;
        let tables = query.tables();
        // Skewed orders are made from orders.
        let sources = TABLES
            .into_iter()
            .filter(|table| tables.contains(table) || query == Query::Skewed && *table == "orders");
        for table in sources {
            if !data.join(parquet_name(table)).exists() {
                self.make_parquet(scale_factor, seed, &data, table)?;
            }
        }
        for table in tables {
            for (format, word, file) in [
                (Format::DefaultParquet, "default", format!("{table}.default.parquet")),
                (Format::Duckdb, "duckdb", format!("{table}.duckdb")),
            ] {
                if formats.contains(&format) && !data.join(&file).exists() {
                    eprintln!("making {file} of scale factor {scale_factor}");
                    self.prepare(&data, seed, word, table)?;
                }
            }
        }
        if formats.contains(&Format::Sqlite) && !data.join("tables.sqlite").exists() {
            eprintln!("making tables.sqlite of scale factor {scale_factor}");
            self.prepare(&data, seed, "sqlite", "")?;
        }
        for format in [Format::Nandu, Format::NanduPax] {
            let ours = nandu::directory_of(query, format);
            if formats.contains(&format) && !data.join(&ours).exists() {
                eprintln!("making {ours} of scale factor {scale_factor}");
                self.make_ours(&data, query, format)?;
            }
        }
        Ok(())
    }

    fn make_ours(&self, data: &Path, query: Query, format: Format) -> Result<(), Failure> {
        let part = data.join("nandu.part");
        if part.exists() {
            std::fs::remove_dir_all(&part).map_err(|error| failure_at(&part, &error))?;
        }
        let mut children = Vec::new();
        nandu::make_database(&part, (query, format), |table| {
            let job = serde_json::json!({ "data": data, "make": "lines", "table": table });
            let mut child = Command::new(self.python())
                .arg(self.scripts().join("prepare.py"))
                .arg(job.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| Failure::Run(format!("making tables: {error}")))?;
            let pipe = child.stdout.take().expect("it was asked for");
            children.push(child);
            Ok(BufReader::new(pipe))
        })?;
        for mut child in children {
            let status = child.wait().map_err(|error| failure_at(&part, &error))?;
            if !status.success() {
                return Err(Failure::Run(format!("making tables: {status}")));
            }
        }
        let whole = data.join(nandu::directory_of(query, format));
        std::fs::rename(&part, &whole).map_err(|error| failure_at(&whole, &error))
    }

    fn make_parquet(
        &self,
        scale_factor: f64,
        seed: u64,
        data: &Path,
        table: &str,
    ) -> Result<(), Failure> {
        let raw = data.join("raw");
        if table != "skewed" {
            eprintln!("generating {table} of scale factor {scale_factor}");
            let mut generator = Command::new(self.directory.join("environment/bin/tpchgen-cli"));
            generator
                .args(["parquet", "--overwrite", "--tables", table, "--scale-factor"])
                .arg(scale_factor.to_string())
                .arg("--output-dir")
                .arg(&raw);
            complete(&mut generator, "the generator")?;
        }
        eprintln!("shuffling it");
        self.prepare(data, seed, "parquet", table)?;
        if raw.exists() {
            std::fs::remove_dir_all(&raw).map_err(|error| failure_at(&raw, &error))?;
        }
        Ok(())
    }

    fn prepare(&self, data: &Path, seed: u64, make: &str, table: &str) -> Result<(), Failure> {
        let raw = data.join("raw");
        let job = serde_json::json!({
            "raw": raw, "data": data, "seed": seed, "make": make, "table": table,
        });
        let mut command = Command::new(self.python());
        command.arg(self.scripts().join("prepare.py")).arg(job.to_string());
        complete(&mut command, "making tables")
    }
}

/// The file of a table.
pub(crate) fn parquet_name(table: &str) -> String {
    format!("{table}.parquet")
}
