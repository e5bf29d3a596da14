//! Work that ends even if its caller goes away.

use crate::Error;

/// Runs `work` in a task of its own, and waits for the end of the task.
///
/// A call's future is dropped when its client goes away, and a commit that has begun happens
/// nevertheless. Work that follows a commit, such as the removal of bytes, would then be lost. The
/// bytes would stay on disk, and no quota would count them. `work` therefore owns the transaction
/// and all locks and places that it needs.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await?
}
