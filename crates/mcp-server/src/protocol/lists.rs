//! Pagination. Cursors are opaque to clients; unknown ones are rejected.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::ErrorData;
use rmcp::model::PaginatedRequestParams;

/// Page size of a fixed list: larger than most lists, because many clients read only one page.
const PAGE_SIZE: usize = 250;

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// Items on the page.
    pub items: Vec<T>,
    /// Start of the next page, if any: the service's own marker, which clients see only encoded.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Returns a page of a list whose items have numbers: the one that `page` finds from the first number on, or from
    /// the number after the prefix of a marker. Returns `None` for the marker of another list.
    pub(crate) async fn numbered<F>(
        prefix: &str,
        after: Option<&str>,
        page: impl FnOnce(usize) -> F,
    ) -> Option<Result<Self, ErrorData>>
    where
        F: Future<Output = Option<(Vec<T>, Option<usize>)>>,
    {
        let first = match after {
            None => Some(0),
            Some(after) => after.strip_prefix(prefix)?.parse().ok(),
        };
        let found = match first {
            Some(first) => page(first).await,
            None => None,
        };
        Some(
            found
                .ok_or_else(unknown_cursor)
                .map(|(items, next)| Self { items, next: next.map(|next| format!("{prefix}{next}")) }),
        )
    }
}

/// Returns the marker in a request's cursor, or `None` for the first page. An empty cursor means the first page.
pub(super) fn start(request: Option<PaginatedRequestParams>) -> Result<Option<String>, ErrorData> {
    let Some(cursor) = request.and_then(|request| request.cursor).filter(|cursor| !cursor.is_empty()) else {
        return Ok(None);
    };
    let bytes = URL_SAFE_NO_PAD.decode(&cursor).map_err(|_| unknown_cursor())?;
    String::from_utf8(bytes).map(Some).map_err(|_| unknown_cursor())
}

/// Encodes a marker as a cursor.
pub(super) fn cursor(next: &str) -> String {
    URL_SAFE_NO_PAD.encode(next)
}

/// Returns one page of a list of named items.
pub(super) fn page<T: Clone>(
    items: &[T],
    start: Option<&str>,
    name: impl Fn(&T) -> &str,
) -> Result<Page<T>, ErrorData> {
    let first = match start {
        None => 0,
        Some(last) => items.iter().position(|item| name(item) == last).ok_or_else(unknown_cursor)? + 1,
    };
    let end = items.len().min(first + PAGE_SIZE);
    let next = (end < items.len()).then(|| name(&items[end - 1]).to_owned());
    Ok(Page { items: items[first..end].to_vec(), next })
}

/// Returns the error for a cursor that no list issued.
pub(crate) fn unknown_cursor() -> ErrorData {
    ErrorData::invalid_params("the cursor is unknown; start again without one", None)
}

#[cfg(test)]
mod tests {
    use super::{PAGE_SIZE, cursor, page, start};
    use rmcp::model::PaginatedRequestParams;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("item {number:04}")).collect()
    }

    fn at_cursor(cursor: &str) -> Option<PaginatedRequestParams> {
        Some(PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned())))
    }

    #[test]
    fn pages_add_up_to_the_list() {
        let all = names(2 * PAGE_SIZE + 3);
        let mut read = Vec::new();
        let mut from = None;
        loop {
            let found = page(&all, from.as_deref(), |name| name).unwrap();
            read.extend(found.items);
            let Some(next) = found.next else { break };
            from = start(at_cursor(&cursor(&next))).unwrap();
        }
        assert_eq!(read, all);
    }

    #[test]
    fn short_list_has_one_page() {
        let found = page(&names(PAGE_SIZE), None, |name| name).unwrap();
        assert_eq!((found.items.len(), found.next), (PAGE_SIZE, None));
    }

    #[test]
    fn only_unknown_cursors_are_rejected() {
        assert_eq!(start(at_cursor("")).unwrap(), None);
        assert_eq!(start(at_cursor("!")).unwrap_err().code.0, -32602);
        let elsewhere = start(at_cursor(&cursor("elsewhere"))).unwrap();
        assert_eq!(page(&names(1), elsewhere.as_deref(), |name| name).unwrap_err().code.0, -32602);
    }
}
