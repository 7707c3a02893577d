//! Reads the fields of a line from a JSON parser.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use serde_json::value::RawValue;

use super::{Json, Line, SqlText, Text};
use crate::fields::{Field, fields};

/// A text that is borrowed if it has no escape. (An `Option` around a `Cow` would always be
/// copied.)
#[derive(serde::Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

/// The possible types of a field.
trait Value<'de> {
    /// Whether a field with `_b64` may follow it.
    const HAS_COMPANION: bool = false;

    fn read<A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error>;

    fn read_companion<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(|_| ())
    }
}

macro_rules! plain {
    ($($type:ty),*) => {
        $(impl<'de> Value<'de> for $type {
            fn read<A: MapAccess<'de>>(&mut self, _: Field, map: &mut A) -> Result<(), A::Error> {
                *self = map.next_value()?;
                Ok(())
            }
        })*
    };
}
plain!(u64, u32, bool, Option<u64>, Option<u16>);

impl<'de, T: Deserialize<'de>> Value<'de> for Vec<T> {
    fn read<A: MapAccess<'de>>(&mut self, _: Field, map: &mut A) -> Result<(), A::Error> {
        *self = map.next_value()?;
        Ok(())
    }
}

impl<'de> Value<'de> for Cow<'de, str> {
    fn read<A: MapAccess<'de>>(&mut self, _: Field, map: &mut A) -> Result<(), A::Error> {
        *self = map.next_value::<Borrowed>()?.0;
        Ok(())
    }
}

impl<'de> Value<'de> for Text<'de> {
    const HAS_COMPANION: bool = true;

    fn read<A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error> {
        self.text.read(field, map)
    }

    fn read_companion<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        self.b64 = map.next_value()?;
        Ok(())
    }
}

impl<'de> Value<'de> for SqlText<'de> {
    const HAS_COMPANION: bool = true;

    fn read<A: MapAccess<'de>>(&mut self, _: Field, map: &mut A) -> Result<(), A::Error> {
        self.text = Some(map.next_value::<Borrowed>()?.0);
        Ok(())
    }

    fn read_companion<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        self.b64 = map.next_value()?;
        Ok(())
    }
}

impl<'de> Value<'de> for Json<'de> {
    fn read<A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error> {
        let text = map.next_value::<&RawValue>()?.get();
        if !text.starts_with('[') {
            return Err(A::Error::custom(format_args!("`{}` is not an array", field.name())));
        }
        self.0 = Cow::Borrowed(text);
        Ok(())
    }
}

impl<'de> Value<'de> for Timestamp {
    fn read<A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error> {
        let Borrowed(text) = map.next_value()?;
        let complaint = || format!("`{}` is not an RFC 3339 time", field.name());
        *self = text.parse().map_err(|_| A::Error::custom(complaint()))?;
        Ok(())
    }
}

impl<'de> Value<'de> for Option<Timestamp> {
    fn read<A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error> {
        self.get_or_insert_default().read(field, map)
    }
}

/// Which fields, and which of their companions, a line has had.
#[derive(Default)]
struct Seen {
    fields: u128,
    companions: u128,
}

impl Seen {
    fn has(&self, field: Field) -> bool {
        self.fields >> field as u32 & 1 != 0
    }

    /// Reads a field, and rejects a duplicate.
    fn read<'de, A: MapAccess<'de>, V: Value<'de>>(
        &mut self,
        field: Field,
        is_companion: bool,
        value: &mut V,
        map: &mut A,
    ) -> Result<(), A::Error> {
        const { assert!(Field::ALL.len() <= u128::BITS as usize) };
        let (seen, ending) =
            if is_companion { (&mut self.companions, "_b64") } else { (&mut self.fields, "") };
        let bit = 1 << field as u32;
        if *seen & bit != 0 && (V::HAS_COMPANION || !is_companion) {
            let name = field.name();
            return Err(A::Error::custom(format_args!("duplicate field `{name}{ending}`")));
        }
        *seen |= bit;
        if is_companion { value.read_companion(map) } else { value.read(field, map) }
    }
}

macro_rules! line_visitor {
    ($($group:ident { $($key:ident => $field:ident: $kind:ident,
        $what:literal, $present:literal, $source:literal;)* })*) => {
        impl<'de> Visitor<'de> for LineVisitor {
            type Value = Line<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("struct Line")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line<'de>, A::Error> {
                let mut line = Line::default();
                let mut seen = Seen::default();
                let mut has_version = false;
                while let Some(Borrowed(key)) = map.next_key()? {
                    let (name, is_companion) = match key.strip_suffix("_b64") {
                        Some(name) => (name, true),
                        None => (&*key, false),
                    };
                    match name {
                        "v" if !is_companion => {
                            if std::mem::replace(&mut has_version, true) {
                                return Err(A::Error::duplicate_field("v"));
                            }
                            line.v = map.next_value()?;
                        }
                        $($(stringify!($key) => {
                            seen.read(Field::$key, is_companion, &mut line.$key, &mut map)?;
                        })*)*
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                if !has_version {
                    return Err(A::Error::missing_field("v"));
                }
                for field in [Field::ts, Field::event] {
                    if !seen.has(field) {
                        return Err(A::Error::missing_field(field.name()));
                    }
                }
                Ok(line)
            }
        }
    };
}

struct LineVisitor;
fields!(line_visitor);

impl<'de> Deserialize<'de> for Line<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LineVisitor)
    }
}
