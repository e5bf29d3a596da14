//! The caller of an RPC as the services see it.

use cloakwork_keystore::TenantId;
use cloakwork_trace::TraceContext;
use tonic::Request;

use crate::{
    auth::Principal,
    error::{ApiError, UNAUTHENTICATED},
};

/// An authenticated caller, and the tenant whose data the caller works with.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The principal as authenticated.
    pub principal: Principal,
    /// The caller's tenant, in the key store's type.
    pub tenant: TenantId,
    /// The span of the call, if the call is traced.
    pub trace: Option<TraceContext>,
}

impl Caller {
    /// Returns the caller that the edge has authenticated.
    pub fn of<T>(request: &Request<T>) -> Result<Self, ApiError> {
        let principal = request.extensions().get::<Principal>().cloned();
        let principal = principal.ok_or_else(|| UNAUTHENTICATED.error("the call is not authenticated"))?;
        let tenant = TenantId::new(principal.tenant.as_str())?;
        Ok(Self { principal, tenant, trace: request.extensions().get().copied() })
    }
}
