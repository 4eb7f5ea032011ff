//! The stable JSON formats and policies of the core.

#[cfg(test)]
mod events;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod retry;

/// Checks that a value serializes to `json` and that `json` deserializes to the value.
#[cfg(test)]
fn pin<T>(value: &T, json: &serde_json::Value)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    assert_eq!(&serde_json::to_value(value).unwrap(), json);
    assert_eq!(&T::deserialize(json).unwrap(), value, "{json}");
}
