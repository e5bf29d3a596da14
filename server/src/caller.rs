//! Who makes a call, as the services see it.

use cloakwork_keystore::TenantId;
use tonic::Request;

use crate::{
    auth::Principal,
    error::{ApiError, UNAUTHENTICATED},
};

/// Somebody who was let in, and whose data they work with.
#[derive(Clone, Debug)]
pub struct Caller {
    /// As authenticated.
    pub principal: Principal,
    /// Their tenant, as the key store names it.
    pub tenant: TenantId,
}

impl Caller {
    /// Whom the layer in front of the services has let in.
    pub fn of<T>(request: &Request<T>) -> Result<Self, ApiError> {
        let principal = request.extensions().get::<Principal>().cloned();
        let principal = principal.ok_or_else(|| UNAUTHENTICATED.error("nobody has said who calls"))?;
        let tenant = TenantId::new(principal.tenant.as_str())?;
        Ok(Self { principal, tenant })
    }
}
