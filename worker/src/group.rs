//! Identifiers of groups of jobs that may share a wave.

use bytes::Bytes;
use cloakwork_params::{KeyId, SetId};

/// Identifies jobs that may share a wave: jobs of one opaque group, one key and one set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupId {
    pub(crate) group: Bytes,
    pub(crate) key_id: KeyId,
    pub(crate) set: SetId,
    /// One digest over the parts of a key that is loaded as a whole. The worker signs which parts a
    /// job was computed with, so a resident key of other parts must not serve the job. Zero for
    /// keys whose parts are loaded one by one, by their own digests.
    pub(crate) parts: [u8; 32],
}
