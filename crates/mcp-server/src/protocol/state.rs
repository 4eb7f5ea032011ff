//! State that a client carries between two requests. The client could return anything, so the state is sealed: if it
//! does not open, it was not created here, has expired, or belongs to another request.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// Time a client has to respond; a question may expire earlier.
const TTL: Duration = Duration::from_secs(24 * 3600);

/// Seals and opens state with a per-process key.
pub(super) struct Seal(RequestStateCodec);

impl Seal {
    pub(super) fn new() -> Self {
        let key = [*Uuid::new_v4().as_bytes(), *Uuid::new_v4().as_bytes()].concat();
        Self(RequestStateCodec::new_unchecked(key))
    }

    pub(super) fn close<T: Serialize>(&self, state: &T, binding: &[u8]) -> Result<String, ErrorData> {
        let options = SealOptions::new().associated_data(binding).ttl(TTL);
        self.0
            .seal_json_with(state, &options)
            .map_err(|error| ErrorData::internal_error(format!("cannot seal the state: {error}"), None))
    }

    pub(super) fn open<T: DeserializeOwned>(&self, sealed: &str, binding: &[u8]) -> Result<T, ErrorData> {
        self.0.open_json_with(sealed, binding).map_err(|_| {
            ErrorData::invalid_params(
                "invalid requestState: not issued by this server for this request",
                None,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Seal;

    #[test]
    fn seal_opens_only_for_the_same_request() {
        let seal = Seal::new();
        let closed = seal.close(&7, b"tools/call a").unwrap();
        assert_eq!(seal.open::<i32>(&closed, b"tools/call a").unwrap(), 7);
        assert_eq!(seal.open::<i32>(&closed, b"tools/call b").unwrap_err().code.0, -32602);
        assert_eq!(seal.open::<i32>(&format!("{closed}x"), b"tools/call a").unwrap_err().code.0, -32602);
        assert_eq!(Seal::new().open::<i32>(&closed, b"tools/call a").unwrap_err().code.0, -32602);
    }
}
