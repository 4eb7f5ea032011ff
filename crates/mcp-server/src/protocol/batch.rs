//! Batches of messages, which only one protocol revision supports.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ProtocolVersion};
use serde_json::value::RawValue;

/// Maximum number of messages in a batch.
pub(crate) const MAX_MESSAGES: usize = 128;

/// Reason for rejecting a batch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BatchError {
    #[error("batches need protocol revision 2025-03-26; send one message at a time")]
    Revision,
    #[error("the batch is empty")]
    Empty,
    #[error("the batch has {0} messages; send at most {MAX_MESSAGES}")]
    TooLong(usize),
    #[error("item {0} of the batch is not a JSON-RPC 2.0 request or notification; the batch was rejected")]
    InvalidMessage(usize),
    #[error("initialize cannot be in a batch; send it alone")]
    Initialize,
}

/// Parses a batch, all or nothing, from a client of the given revision.
pub(crate) fn read(
    bytes: &[u8],
    version: Option<&ProtocolVersion>,
) -> Result<Vec<ClientJsonRpcMessage>, BatchError> {
    if version != Some(&ProtocolVersion::V_2025_03_26) {
        return Err(BatchError::Revision);
    }
    let items: Vec<&RawValue> = serde_json::from_slice(bytes).map_err(|_| BatchError::InvalidMessage(0))?;
    match items.len() {
        0 => return Err(BatchError::Empty),
        count if count > MAX_MESSAGES => return Err(BatchError::TooLong(count)),
        _ => {}
    }
    let read = |(index, item): (usize, &&RawValue)| {
        let message = serde_json::from_str(item.get()).map_err(|_| BatchError::InvalidMessage(index))?;
        match &message {
            JsonRpcMessage::Request(request)
                if matches!(request.request, ClientRequest::InitializeRequest(_)) =>
            {
                Err(BatchError::Initialize)
            }
            _ => Ok(message),
        }
    };
    items.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::{BatchError, MAX_MESSAGES, read};
    use rmcp::model::ProtocolVersion;

    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    #[test]
    fn batch_is_accepted_or_rejected_atomically() {
        let version = ProtocolVersion::V_2025_03_26;
        let count = |text: &str| read(text.as_bytes(), Some(&version)).map(|messages| messages.len());
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"a","version":"0"}}}"#;
        assert_eq!(count(&format!("[{PING},{PING}]")), Ok(2));
        assert_eq!(count("[]"), Err(BatchError::Empty));
        assert_eq!(count(&format!("[{PING},7]")), Err(BatchError::InvalidMessage(1)));
        assert_eq!(count(&format!("[{PING},[{PING}]]")), Err(BatchError::InvalidMessage(1)));
        assert_eq!(count(&format!("[{hello}]")), Err(BatchError::Initialize));
        let many = format!("[{}]", vec![PING; MAX_MESSAGES + 1].join(","));
        assert_eq!(count(&many), Err(BatchError::TooLong(MAX_MESSAGES + 1)));
    }

    #[test]
    fn other_revisions_reject_batches() {
        let batch = format!("[{PING}]");
        for version in [None, Some(&ProtocolVersion::V_2025_06_18), Some(&ProtocolVersion::V_2024_11_05)] {
            assert_eq!(read(batch.as_bytes(), version).err(), Some(BatchError::Revision));
        }
    }
}
