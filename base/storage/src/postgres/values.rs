//! Values and rows in the driver's terms.

use std::error::Error as StdError;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::{Error, Value};

/// A value that a statement binds. The statement decides on the type, and the value is converted.
#[derive(Debug)]
pub(super) struct Bound<'v>(pub(super) &'v Value);

type Failure = Box<dyn StdError + Sync + Send>;

impl ToSql for Bound<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match (self.0, ty) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Int(value), &Type::INT8) => value.to_sql(ty, out),
            (Value::Int(value), &Type::INT4) => i32::try_from(*value)?.to_sql(ty, out),
            (Value::Int(value), &Type::INT2) => i16::try_from(*value)?.to_sql(ty, out),
            (Value::Int(value), &Type::BOOL) => (*value != 0).to_sql(ty, out),
            // PostgreSQL stores no NUL in text. Text may come from callers, and must not fail the
            // transaction of other callers.
            (Value::Text(text), _) if text.contains('\0') => text.replace('\0', "\u{fffd}").to_sql(ty, out),
            (Value::Text(text), _) => text.to_sql(ty, out),
            (Value::Bytes(bytes), &Type::BYTEA) => bytes.to_sql(ty, out),
            (value, ty) => Err(format!("a value of kind {} is bound as {ty}", kind(value)).into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Names the kind of a value, and not the value: errors are logged.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Int(_) => "integer",
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytes",
    }
}

/// An integer of any size.
struct Integer(i64);

impl<'r> FromSql<'r> for Integer {
    fn from_sql(ty: &Type, raw: &'r [u8]) -> Result<Self, Failure> {
        Ok(Self(match *ty {
            Type::INT2 => i16::from_sql(ty, raw)?.into(),
            Type::INT4 => i32::from_sql(ty, raw)?.into(),
            _ => i64::from_sql(ty, raw)?,
        }))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT2 | Type::INT4 | Type::INT8)
    }
}

/// A row that a query found.
#[derive(Debug)]
pub(crate) struct Row(pub(super) tokio_postgres::Row);

impl Row {
    pub(crate) fn int(&self, column: &str) -> Result<Option<i64>, Error> {
        Ok(self.get::<Integer>(column)?.map(|integer| integer.0))
    }

    pub(crate) fn text(&self, column: &str) -> Result<Option<&str>, Error> {
        self.get(column)
    }

    pub(crate) fn bytes(&self, column: &str) -> Result<Option<&[u8]>, Error> {
        self.get(column)
    }

    fn get<'r, T: FromSql<'r>>(&'r self, column: &str) -> Result<Option<T>, Error> {
        let place = self.0.columns().iter().position(|found| found.name() == column);
        let place = place.ok_or_else(|| Error::Failed(format!("no column {column}")))?;
        self.0.try_get(place).map_err(|error| Error::Damaged(format!("{column}: {error}")))
    }
}
