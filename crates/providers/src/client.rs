//! A model behind a wire format: builds a request, sends it, and decodes the response as it arrives.

use meerkat_core::{BoxFuture, Delta, DeltaSink, Model, ModelError, ModelInfo, ModelRequest, ModelResponse};
use meerkat_fetch::Http;

use crate::endpoint::Endpoint;
use crate::http::{Post, chunk, post};
use crate::reader::Reader;
use crate::wire::Wire;

#[cfg(test)]
#[cfg(all(feature = "anthropic", feature = "chat", feature = "gemini", feature = "responses"))]
mod tests;

/// A model behind a wire format.
pub(crate) struct WireModel<W> {
    pub(crate) wire: W,
    pub(crate) info: ModelInfo,
    pub(crate) endpoint: Endpoint,
    pub(crate) http: Http,
}

impl<W: Wire> Model for WireModel<W> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn generate<'a>(
        &'a self,
        request: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let body = self.wire.body(&self.info, request);
            for (tool, reason) in body.left_out {
                deltas(Delta::ToolOmitted { tool, reason });
            }
            let mut headers = self.wire.headers(self.endpoint.key.expose());
            headers.extend(self.wire.headers_for(&body.json));
            let (wire, path) = (&self.wire, self.wire.path(&self.info));
            let call = Post { wire, endpoint: &self.endpoint, path, headers, body: &body.json };
            let mut response = post(&self.http, call).await?;
            deltas(Delta::Received);
            let mut reader = Reader::new(wire.provider(), wire.decoder_for(request));
            while let Some(bytes) = chunk(wire.provider(), &mut response).await? {
                deltas(Delta::Received);
                reader.feed(bytes.as_ref(), deltas)?;
            }
            reader.finish()
        })
    }
}
