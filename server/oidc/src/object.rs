//! JSON objects whose members appear once.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::Value;

/// A JSON object without duplicate members. Parsers of JSON disagree on which of two members
/// counts, so a duplicate could mean one claim to the issuer and another one to us.
pub(crate) struct Object(BTreeMap<String, Value>);

impl Object {
    /// Parses a text that is one object. The parser refuses more than 128 levels of nesting.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// The member with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a duplicate member"));
            }
        }
        Ok(Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_each_member_once() {
        let object = Object::parse(br#"{"a": 1, "b": {"c": 1, "c": 2}}"#).expect("an object");
        assert_eq!((object.get("a"), object.get("c")), (Some(&Value::from(1)), None));
        // An escape is another spelling of the same name.
        for wrong in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": 1, "\u0061": 2}"#,
            "[]",
            "1",
            "",
            "{} {}",
            r#"{"a": 1"#,
            "{\"a\": \"\u{1}\"}",
        ] {
            assert!(Object::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(Object::parse(b"{\"a\": \"\xff\"}").is_none(), "no UTF-8");
    }

    #[test]
    fn deep_nesting_is_refused() {
        let nested = |depth: usize| format!("{{\"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(Object::parse(nested(100).as_bytes()).is_some());
        assert!(Object::parse(nested(1_000_000).as_bytes()).is_none());
        assert!(Object::parse("{\"a\":".repeat(1_000_000).as_bytes()).is_none());
    }
}
