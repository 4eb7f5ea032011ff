//! Lists in pages. A cursor is opaque to the client, and one that is none of ours is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::ErrorData;
use rmcp::model::PaginatedRequestParams;

/// How many items a page of a fixed list has: more than most servers have, as many clients read one page only.
const PAGE: usize = 250;

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one starts, if there is one: a word of the service, which the client never sees as such.
    pub next: Option<String>,
}

/// Returns where a request wants its page to start. An empty cursor is the start.
pub(super) fn start(request: Option<PaginatedRequestParams>) -> Result<Option<String>, ErrorData> {
    let Some(cursor) = request.and_then(|request| request.cursor).filter(|cursor| !cursor.is_empty()) else {
        return Ok(None);
    };
    let bytes = URL_SAFE_NO_PAD.decode(&cursor).map_err(|_| unknown())?;
    String::from_utf8(bytes).map(Some).map_err(|_| unknown())
}

/// Makes the cursor that the client is given.
pub(super) fn cursor(next: &str) -> String {
    URL_SAFE_NO_PAD.encode(next)
}

/// Cuts a page out of a list whose items have names.
pub(super) fn page<T: Clone>(
    items: &[T],
    start: Option<&str>,
    name: impl Fn(&T) -> &str,
) -> Result<Page<T>, ErrorData> {
    let first = match start {
        None => 0,
        Some(last) => items.iter().position(|item| name(item) == last).ok_or_else(unknown)? + 1,
    };
    let end = items.len().min(first + PAGE);
    let next = (end < items.len()).then(|| name(&items[end - 1]).to_owned());
    Ok(Page { items: items[first..end].to_vec(), next })
}

fn unknown() -> ErrorData {
    ErrorData::invalid_params("the cursor is unknown; start again without one", None)
}

#[cfg(test)]
mod tests {
    use super::{PAGE, cursor, page, start};
    use rmcp::model::PaginatedRequestParams;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("item {number:04}")).collect()
    }

    fn asked(cursor: &str) -> Option<PaginatedRequestParams> {
        Some(PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned())))
    }

    #[test]
    fn pages_put_together_are_the_list() {
        let all = names(2 * PAGE + 3);
        let mut read = Vec::new();
        let mut from = None;
        loop {
            let found = page(&all, from.as_deref(), |name| name).unwrap();
            read.extend(found.items);
            let Some(next) = found.next else { break };
            from = start(asked(&cursor(&next))).unwrap();
        }
        assert_eq!(read, all);
    }

    #[test]
    fn a_list_that_fits_has_one_page() {
        let found = page(&names(PAGE), None, |name| name).unwrap();
        assert_eq!((found.items.len(), found.next), (PAGE, None));
    }

    #[test]
    fn an_empty_cursor_is_the_start_and_a_foreign_one_is_refused() {
        assert_eq!(start(asked("")).unwrap(), None);
        assert_eq!(start(asked("!")).unwrap_err().code.0, -32602);
        let elsewhere = start(asked(&cursor("elsewhere"))).unwrap();
        assert_eq!(page(&names(1), elsewhere.as_deref(), |name| name).unwrap_err().code.0, -32602);
    }
}
