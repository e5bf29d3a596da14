//! Charges a caller's address for calls that fail authentication.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, header::AUTHORIZATION};
use tonic::Code;

use super::Edge;
use crate::{
    address::Act,
    auth::{Peer, Principal},
    connection::Slot,
    error::{ApiError, PERMISSION_DENIED},
};

/// A call that is being authenticated. If the attempt is dropped before it is settled, the address
/// is charged nevertheless. Otherwise a caller could try tokens at no cost, by resetting each call
/// while the server looks up its token.
pub(super) struct Attempt<'a> {
    edge: &'a Edge,
    peer: Peer,
    slot: Option<&'a Arc<Slot>>,
    shows_token: bool,
    act: Option<Act>,
    retry_after: Option<Duration>,
}

impl<'a> Attempt<'a> {
    pub(super) fn begin(edge: &'a Edge, peer: Peer, slot: Option<&'a Arc<Slot>>, headers: &HeaderMap) -> Self {
        let shows_token = headers.contains_key(AUTHORIZATION);
        let act = if shows_token { Act::Failure } else { Act::Call };
        Self { edge, peer, slot, shows_token, act: Some(act), retry_after: None }
    }

    /// Settles the attempt. The address is charged unless the caller is authenticated. A caller who
    /// only lacks the required scope is authenticated.
    pub(super) fn settle(mut self, admitted: &Result<Option<Principal>, ApiError>) {
        self.act = match admitted {
            Ok(_) => None,
            Err(error) if error.reason() == PERMISSION_DENIED => None,
            Err(error) if error.reason().grpc == Code::Unauthenticated && self.shows_token => Some(Act::Failure),
            Err(_) => Some(Act::Call),
        };
        self.retry_after = admitted.as_ref().err().and_then(ApiError::retry_delay);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let Some(act) = self.act else { return };
        self.edge.charge(self.peer, self.slot, act);
        // The refusal names a retry delay. If the server read the connection again before that
        // time, a flood of refused calls would take CPU time from the tenants.
        if let (Some(slot), Some(time)) = (self.slot, self.retry_after) {
            slot.pause(time);
        }
    }
}
