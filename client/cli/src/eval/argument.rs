//! Names with their types and values: `x=u64:7`, `prices=u32:[3,5,8]`.

use std::str::FromStr;

use cloakwork_client::{Integer, Type};

use crate::syntax::is_name;

/// A name, its type, and its value in each row.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// Number of elements in a row of an array; `None` for a single value.
    pub(crate) length: Option<usize>,
    /// Values of all rows; an array's elements follow each other.
    pub(crate) values: Vec<Integer>,
}

impl Argument {
    pub(crate) fn rows(&self) -> usize {
        self.values.len() / self.length.unwrap_or(1)
    }
}

/// Type of a value without a named type.
pub(super) const DEFAULT: Type = Type::Uint(64);

impl FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("'{text}': expected NAME=TYPE:VALUE, as in x=u64:7");
        let (name, rest) = text.split_once('=').ok_or_else(expected)?;
        if !is_name(name) {
            return Err(format!(
                "'{name}' is not a name: a name has letters, digits and _, and does not begin with a digit"
            ));
        }
        let (ty, values) = match rest.split_once(':') {
            Some((first, ty)) if type_named(first).is_none() && type_named(ty).is_some() => {
                return Err(format!("'{text}': the type comes first, as in {name}={ty}:{first}"));
            }
            Some((ty, values)) => (type_named(ty).ok_or_else(|| no_type(ty))?, values),
            None if type_named(rest).is_some() => (DEFAULT, ""),
            None => (DEFAULT, rest),
        };
        if values.is_empty() {
            return Err(format!("'{text}' has no value: expected NAME=TYPE:VALUE, as in {name}=u64:7"));
        }
        let (length, values) = match values.trim().strip_prefix('[') {
            Some(arrays) => arrays_of(name, ty, arrays)?,
            None => (None, values_of(values, ty)?),
        };
        Ok(Self { name: name.to_owned(), ty, length, values })
    }
}

fn values_of(text: &str, ty: Type) -> Result<Vec<Integer>, String> {
    text.split(',').map(|value| Integer::parse(value.trim(), ty)).collect()
}

/// Parses arrays of equal length, from after the first bracket. Returns the length, and all
/// elements.
fn arrays_of(name: &str, ty: Type, text: &str) -> Result<(Option<usize>, Vec<Integer>), String> {
    let expected =
        || format!("the arrays of {name}: expected {name}={ty}:[1,2,3], or several with commas between them");
    let inner = text.trim_end().strip_suffix(']').ok_or_else(expected)?;
    let (mut length, mut values) = (None, Vec::new());
    for (index, row) in inner.split(']').enumerate() {
        let row = match index {
            0 => row,
            _ => row
                .trim_start()
                .strip_prefix(',')
                .and_then(|row| row.trim_start().strip_prefix('['))
                .ok_or_else(expected)?,
        };
        if row.trim().is_empty() {
            return Err(format!("the arrays of {name}: one has no elements"));
        }
        let row = values_of(row, ty)?;
        let first = *length.get_or_insert(row.len());
        if row.len() != first {
            return Err(format!(
                "the arrays of {name} have {first} and {} elements: expected as many in each",
                row.len()
            ));
        }
        values.extend(row);
    }
    Ok((length, values))
}

/// The type of a name: bool, u2 to u256, i2 to i256.
pub(super) fn type_named(name: &str) -> Option<Type> {
    if name == "bool" {
        return Some(Type::Bool);
    }
    let bits = |bits: &str| bits.parse().ok().filter(|bits| (2..=256).contains(bits) && bits % 2 == 0);
    match (name.strip_prefix('u'), name.strip_prefix('i')) {
        (Some(width), _) => bits(width).map(Type::Uint),
        (_, Some(width)) => bits(width).map(Type::Int),
        _ => None,
    }
}

fn no_type(name: &str) -> String {
    format!("'{name}' is not a type: types are bool, u2, u4 .. u256 and i2, i4 .. i256")
}
