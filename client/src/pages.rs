//! Streams over paginated lists.

use std::collections::VecDeque;

use futures_util::{Stream, stream};

use crate::Result;

/// The items of all pages. `fetch` takes a page token, and returns the page's items and the next
/// token.
pub(crate) fn stream<T, F>(fetch: impl Fn(String) -> F + Send) -> impl Stream<Item = Result<T>> + Send + Unpin
where
    T: Send,
    F: Future<Output = Result<(Vec<T>, String)>> + Send,
{
    let start = (VecDeque::new(), Some(String::new()), fetch);
    Box::pin(stream::try_unfold(start, |(mut items, mut next, fetch)| async move {
        loop {
            if let Some(item) = items.pop_front() {
                return Ok(Some((item, (items, next, fetch))));
            }
            let Some(token) = next else { return Ok(None) };
            let (page, token) = fetch(token).await?;
            items = page.into();
            next = Some(token).filter(|token| !token.is_empty());
        }
    }))
}
