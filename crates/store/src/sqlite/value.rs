//! Queries, and conversion of values to and from the database.

use meerkat_core::{SessionId, Timestamp, Usage, Usd};
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Connection, OptionalExtension as _, Params, Row};
use uuid::Uuid;

use crate::UsageRow;
use crate::rows::start_of_day;

/// Reads at most one row.
pub(super) fn find<T>(
    connection: &Connection,
    query: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(query)?.query_row(values, read).optional()
}

/// Reads all rows.
pub(super) fn list<T, C: FromIterator<T>>(
    connection: &Connection,
    query: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<C> {
    connection.prepare_cached(query)?.query_map(values, read)?.collect()
}

/// An id as stored in a column.
pub(super) type Key = [u8; 16];

pub(super) fn key(id: SessionId) -> Key {
    id.uuid().into_bytes()
}

/// The maximum number of microseconds that can be converted back to a time.
const MAX_MICROS: i64 = 253_402_207_200_000_000;

pub(super) fn micros(time: Timestamp) -> i64 {
    time.as_microsecond().min(MAX_MICROS)
}

/// Converts a number for a column. A number that does not fit is larger than any count.
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

/// Reads a row of the table `usage`.
pub(super) fn usage_row(row: &Row<'_>) -> rusqlite::Result<UsageRow> {
    let optional = |column| {
        let number = row.get::<_, Option<i64>>(column)?;
        number.map(|_| get_u64(row, column)).transpose()
    };
    Ok(UsageRow {
        session: SessionId::from_uuid(get_uuid(row, 0)?),
        day: start_of_day(row.get(1)?),
        usage: Usage {
            input_tokens: get_u64(row, 2)?,
            output_tokens: get_u64(row, 3)?,
            cache_creation_tokens: optional(4)?,
            cache_read_tokens: optional(5)?,
        },
        cost: Usd::from_micros(get_u64(row, 6)?),
    })
}

fn to_time(column: usize, micros: i64) -> rusqlite::Result<Timestamp> {
    let bad = |error| {
        let error = FromSqlError::Other(Box::new(error));
        rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, Box::new(error))
    };
    Timestamp::from_microsecond(micros).map_err(bad)
}
