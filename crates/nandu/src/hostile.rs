//! Entry points for bytes of unknown origin, as those of `nandu_storage::hostile`: the list of a
//! directory's files.
//!
//! 1. Whatever the bytes, no panic, no memory out of proportion to them, and no name that leads out of
//!    a directory.

use crate::StorageError;
use crate::directory_volume::names_in_manifest;
use nandu_storage::volume::FileName;

/// The names in the list of a directory's files: in the bytes as they are, or else in them as lines
/// with a right checksum.
///
/// # Errors
/// If they are no such list.
pub fn read_manifest(bytes: &[u8]) -> Result<Vec<FileName>, StorageError> {
    names_in_manifest(bytes).or_else(|_| {
        let sum = crc32c::crc32c(bytes);
        names_in_manifest(&[bytes, format!("checksum {sum:08x}\n").as_bytes()].concat())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{Rng, to_index};
    use nandu_storage::volume::RESERVED_NAMES;
    use std::path::{Component, Path};

    /// Pieces of lines, good and bad ones.
    const PIECES: [&str; 20] = [
        "nandu volume 2\n",
        "made 1\n",
        "making ff\n",
        "file ",
        "new ",
        "gone ",
        "7 ",
        "0 ",
        "65536 ",
        "- ",
        "18446744073709551616 ",
        "../victim",
        "/abs",
        "a",
        "nandu.lock",
        "\n",
        "\u{0}",
        "..",
        "a/b",
        "checksum 1",
    ];

    #[test]
    fn no_lines_with_a_right_checksum_give_a_name_that_leads_out() {
        let mut rng = Rng::for_part(22, "manifests");
        let (mut read_count, mut name_count) = (0, 0);
        for round in 0..20_000 {
            let mut text = String::from("nandu volume 2\nmade 1\n");
            for _ in 0..rng.below(3) {
                let word = ["file ", "new ", "gone "][to_index(rng.below(3))];
                text.push_str(word);
                for _ in 0..rng.below(4) {
                    text.push_str(PIECES[to_index(rng.below(PIECES.len() as u64))]);
                }
                text.push('\n');
            }
            let mut bytes = text.into_bytes();
            if round % 2 == 0 {
                let at = to_index(rng.below(bytes.len() as u64));
                bytes[at] = rng.next_u64().to_le_bytes()[0];
            }
            let Ok(names) = read_manifest(&bytes) else { continue };
            read_count += 1;
            for name in names {
                let mut parts = Path::new(name.as_str()).components();
                let is_inside = matches!(parts.next(), Some(Component::Normal(_)));
                assert!(is_inside && parts.next().is_none(), "{name}");
                assert!(!RESERVED_NAMES.contains(&name.as_str()), "{name}");
                name_count += 1;
            }
        }
        assert!(
            read_count > 1000 && name_count > 100,
            "{read_count} were read, {name_count} names"
        );
        assert!(read_manifest(b"nandu volume 2\nmade 1\nfile 3 0 a\n").is_ok());
    }

    #[test]
    fn bytes_that_are_no_list_are_refused_in_words() {
        for (bytes, said) in [
            (&b"somebody's lines\n"[..], "its nandu.files is another program's"),
            (b"nandu volume 9\nmade 1\n", "its layout has version 9, this program reads 2"),
            (b"nandu volume 2\nmade 1\nfile 3 0 ../a\n", ""),
        ] {
            let text = read_manifest(bytes).unwrap_err().to_string();
            assert!(text.contains(said), "{text}");
            let has_type =
                ["Empty", "Foreign", "OtherVersion", "Damaged", "(\""].map(|it| text.contains(it));
            assert_eq!(has_type, [false; 5], "{text}");
        }
    }
}
