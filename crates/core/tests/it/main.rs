//! What the core promises to whoever reads its JSON or relies on its policies.

#[cfg(test)]
mod events;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod retry;

/// Checks that a value is written as `json` and that `json` is read as the value.
#[cfg(test)]
fn pin<T>(value: &T, json: &serde_json::Value)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    assert_eq!(&serde_json::to_value(value).unwrap(), json);
    assert_eq!(&T::deserialize(json).unwrap(), value, "{json}");
}
