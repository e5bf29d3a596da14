//! Names and what they stand for: `x=u64:7`.

use std::str::FromStr;

use cloakwork_client::{Integer, Type};

/// A name, its type, and its value in each row.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) values: Vec<Integer>,
}

/// What a value is that names no type.
const DEFAULT: Type = Type::Uint(64);

impl FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("'{text}': expected NAME=TYPE:VALUE, as in x=u64:7");
        let (name, rest) = text.split_once('=').ok_or_else(expected)?;
        let is_name = name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
        if !is_name {
            return Err(expected());
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
        let values = values.split(',').map(|value| Integer::parse(value.trim(), ty)).collect::<Result<_, _>>()?;
        Ok(Self { name: name.to_owned(), ty, values })
    }
}

/// The type of that name: bool, u2 to u256, i2 to i256.
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
    format!("'{name}' is no type: there are bool, and u2, u4 .. u256 and i2, i4 .. i256")
}
