//! How values look in the database.

use meerkat_core::{SessionId, Timestamp};
use rusqlite::Row;
use rusqlite::types::{FromSqlError, Type};
use uuid::Uuid;

/// An id as its column holds it.
pub(super) type Key = [u8; 16];

pub(super) fn key(id: SessionId) -> Key {
    id.uuid().into_bytes()
}

/// The last whole microsecond that can be read back as a time.
const LAST: i64 = 253_402_207_200_000_000;

pub(super) fn micros(time: Timestamp) -> i64 {
    time.as_microsecond().min(LAST)
}

/// More than a column can hold is more than there is of anything.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn get_uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get::<_, Key>(column).map(Uuid::from_bytes)
}

pub(super) fn get_u64(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

pub(super) fn get_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    to_time(column, row.get(column)?)
}

pub(super) fn get_optional_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    row.get::<_, Option<i64>>(column)?.map(|micros| to_time(column, micros)).transpose()
}

fn to_time(column: usize, micros: i64) -> rusqlite::Result<Timestamp> {
    let bad = |error| {
        let error = FromSqlError::Other(Box::new(error));
        rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, Box::new(error))
    };
    Timestamp::from_microsecond(micros).map_err(bad)
}
