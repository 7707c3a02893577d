//! Names of fields on the command line.

use tacho_record::Field;

/// The field of this name.
///
/// # Errors
/// There is none; the message has the most similar name.
pub fn parse(text: &str) -> Result<Field, String> {
    let named = |field: &&Field| field.name() == text;
    if let Some(field) = Field::ALL.iter().find(named) {
        return Ok(*field);
    }
    let text = text.to_lowercase();
    // Often the end of a name is missing, such as the unit.
    let nearest = Field::ALL.iter().min_by_key(|field| {
        let name = field.name();
        (!name.starts_with(&text), distance(name, &text))
    });
    let nearest = nearest.map_or("seq", |field| field.name());
    Err(format!(
        "no line has this field; the nearest is `{nearest}` (docs/specs/record.md has all)"
    ))
}

/// How many characters have to be inserted, removed or replaced (the Levenshtein distance).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (number, character) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], number + 1);
        for at in 0..to.len() {
            let replaced = diagonal + usize::from(character != to[at]);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_name() {
        for field in Field::ALL {
            assert_eq!(parse(field.name()), Ok(*field));
        }
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        for (wrong, near) in [
            ("usr", "user"),
            ("USER", "user"),
            ("query_time", "query_time_us"),
            ("rows_sended", "rows_sent"),
            ("", "ts"),
        ] {
            let message = parse(wrong).unwrap_err();
            assert!(message.contains(&format!("`{near}`")), "{wrong}: {message}");
        }
    }

    #[test]
    fn distances() {
        assert_eq!((distance("", ""), distance("ab", ""), distance("", "ab")), (0, 2, 2));
        assert_eq!((distance("kitten", "sitting"), distance("user", "user")), (3, 0));
    }
}
