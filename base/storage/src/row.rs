//! Rows that a query found.

use crate::{Error, session::FoundRow};

/// A row. Columns are read by name, and a value of another type is an error.
#[derive(Debug)]
pub struct Row(FoundRow);

impl Row {
    pub(crate) fn new(row: FoundRow) -> Self {
        Self(row)
    }

    /// An integer.
    pub fn int(&self, column: &str) -> Result<i64, Error> {
        present(column, self.0.int(column)?)
    }

    /// An integer, or `None` for no value.
    pub fn int_or_null(&self, column: &str) -> Result<Option<i64>, Error> {
        self.0.int(column)
    }

    /// An integer that is not negative.
    pub fn unsigned(&self, column: &str) -> Result<u64, Error> {
        let value = self.int(column)?;
        u64::try_from(value).map_err(|_| damaged(column, format_args!("{value} is negative")))
    }

    /// An integer that fits `T`.
    pub fn small<T: TryFrom<i64>>(&self, column: &str) -> Result<T, Error> {
        let value = self.int(column)?;
        T::try_from(value).map_err(|_| damaged(column, format_args!("{value} is out of range")))
    }

    /// A boolean, stored as 0 or another integer.
    pub fn flag(&self, column: &str) -> Result<bool, Error> {
        Ok(self.int(column)? != 0)
    }

    /// Text.
    pub fn text(&self, column: &str) -> Result<&str, Error> {
        present(column, self.0.text(column)?)
    }

    /// Text, or `None` for no value.
    pub fn text_or_null(&self, column: &str) -> Result<Option<&str>, Error> {
        self.0.text(column)
    }

    /// Bytes.
    pub fn bytes(&self, column: &str) -> Result<&[u8], Error> {
        present(column, self.0.bytes(column)?)
    }

    /// Bytes, or `None` for no value.
    pub fn bytes_or_null(&self, column: &str) -> Result<Option<&[u8]>, Error> {
        self.0.bytes(column)
    }

    /// Exactly `N` bytes.
    pub fn array<const N: usize>(&self, column: &str) -> Result<[u8; N], Error> {
        array(column, self.bytes(column)?)
    }

    /// Exactly `N` bytes, or `None` for no value.
    pub fn array_or_null<const N: usize>(&self, column: &str) -> Result<Option<[u8; N]>, Error> {
        self.bytes_or_null(column)?.map(|bytes| array(column, bytes)).transpose()
    }
}

fn present<T>(column: &str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| damaged(column, format_args!("no value")))
}

fn array<const N: usize>(column: &str, bytes: &[u8]) -> Result<[u8; N], Error> {
    bytes.try_into().map_err(|_| damaged(column, format_args!("{} bytes instead of {N}", bytes.len())))
}

fn damaged(column: &str, why: std::fmt::Arguments<'_>) -> Error {
    Error::Damaged(format!("{column}: {why}"))
}
