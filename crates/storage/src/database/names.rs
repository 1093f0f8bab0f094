//! Names of files in what is told: structures know their files by number only.

use crate::{FileId, StorageError};

/// What stands between a page and the number of its file.
const BEFORE_NUMBER: &str = " of file ";

/// The same error, with the name of the file that it speaks of.
pub(super) fn with_names(files: &[(FileId, String)], error: StorageError) -> StorageError {
    with_names_of(|| files.to_vec(), error)
}

/// The same, with files that are asked for only where they are needed.
pub(super) fn with_names_of(
    files: impl FnOnce() -> Vec<(FileId, String)>,
    error: StorageError,
) -> StorageError {
    let named = |place: String| match place.contains(BEFORE_NUMBER) {
        true => name_files(&place, &files()),
        false => place,
    };
    match error {
        StorageError::Corrupt { place, what } => {
            StorageError::Corrupt { place: named(place), what }
        }
        StorageError::NotADatabase { place, what } => {
            StorageError::NotADatabase { place: named(place), what }
        }
        other => other,
    }
}

/// `text` with the names of `files` in place of their numbers.
pub(super) fn name_files(text: &str, files: &[(FileId, String)]) -> String {
    let mut pieces = text.split(BEFORE_NUMBER);
    let mut named = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(piece.len());
        let number = piece[..end].parse().ok().map(FileId);
        match files.iter().find(|(file, _)| Some(*file) == number) {
            Some((_, name)) => named.extend([" of ", name.as_str(), &piece[end..]]),
            None => named.extend([BEFORE_NUMBER, piece]),
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers_become_names_and_nothing_else_changes() {
        let files = [(FileId(1), "a.tree".to_owned()), (FileId(12), "b.sqlite".to_owned())];
        for (text, named) in [
            ("page 3 of file 12", "page 3 of b.sqlite"),
            ("page 3 of file 1: it is used twice", "page 3 of a.tree: it is used twice"),
            ("page 3 of file 2 and page 4 of file 1", "page 3 of file 2 and page 4 of a.tree"),
            ("the end of file ", "the end of file "),
            ("an index", "an index"),
        ] {
            assert_eq!(name_files(text, &files), named);
        }
    }
}
