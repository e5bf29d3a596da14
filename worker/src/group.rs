//! Identifiers of groups of jobs that may share a wave.

use bytes::Bytes;
use cloakwork_params::{KeyId, SetId};

/// Identifies jobs that may share a wave: jobs of one opaque group, one key and one set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupId {
    pub(crate) group: Bytes,
    pub(crate) key_id: KeyId,
    pub(crate) set: SetId,
}
