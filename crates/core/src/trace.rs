//! Position of a piece of work in a distributed trace, as defined by W3C Trace Context.

/// Maximum length of a `tracestate` that is propagated.
const MAX_STATE: usize = 512;

/// Position of a span in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// Trace id; never 0.
    pub trace_id: u128,
    /// Id of the span that new work belongs to; never 0.
    pub span_id: u64,
    /// Flags of the trace; the lowest bit is set if it is sampled.
    pub flags: u8,
    /// Vendor state of the trace, propagated unchanged.
    pub state: Option<String>,
}

impl TraceContext {
    /// Flags of a sampled trace.
    pub const SAMPLED: u8 = 1;

    /// Parses a `traceparent` and its `tracestate`. Returns `None` if the `traceparent` is invalid.
    #[must_use]
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = parent.trim().split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = u8::try_from(hex(parts.next()?, 2)?).ok()?;
        // A later version may have more parts; this one may not.
        let is_supported = version != 0xff && (version > 0 || parts.next().is_none());
        let is_plain = |state: &&str| {
            !state.is_empty()
                && state.len() <= MAX_STATE
                && state.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        };
        let state = state.map(str::trim).filter(is_plain).map(str::to_owned);
        (is_supported && trace_id != 0 && span_id != 0).then_some(Self { trace_id, span_id, flags, state })
    }

    /// Returns the `traceparent` of work that belongs to this span.
    #[must_use]
    pub fn parent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }

    /// Returns the context of a child span.
    #[must_use]
    pub fn child(&self, span_id: u64) -> Self {
        Self { span_id, ..self.clone() }
    }

    /// Returns `true` if the trace is sampled.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & Self::SAMPLED != 0
    }
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (text.len() == digits && text.bytes().all(is_hex)).then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::TraceContext;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn traceparent_round_trips() {
        let read = TraceContext::parse(PARENT, Some("vendor=1,other=2")).unwrap();
        let expected = TraceContext {
            trace_id: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
            span_id: 0xb7ad_6b71_6920_3331,
            flags: TraceContext::SAMPLED,
            state: Some("vendor=1,other=2".to_owned()),
        };
        assert_eq!((read.parent(), &read), (PARENT.to_owned(), &expected));
        let child = "00-0af7651916cd43dd8448eb211c80319c-0000000000000007-01";
        assert_eq!(read.child(7).parent(), child);
    }

    #[test]
    fn invalid_traceparent_is_ignored() {
        let wrong = [
            "",
            "00",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ];
        for text in wrong {
            assert_eq!(TraceContext::parse(text, None), None, "{text}");
        }
    }

    #[test]
    fn later_version_and_invalid_state_keep_the_trace() {
        let later = PARENT.replacen("00", "01", 1) + "-more";
        let read = TraceContext::parse(&later, Some("one\ntwo")).unwrap();
        assert_eq!((read.parent().as_str(), read.state), (PARENT, None));
    }
}
