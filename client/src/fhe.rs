//! Encrypted values with operators. An expression is only written down until somebody waits for it: then all of it is one
//! program and one job.

mod clear;
mod node;
mod operators;

use std::{future::IntoFuture, marker::PhantomData, pin::Pin, sync::Arc};

pub use self::clear::Clear;
use self::node::{Node, Origin, Stored};
use crate::{Client, ClientError, Input, JobRequest, Keys, Kind, ProgramBuilder, Result};

/// A client, its keys, and a server that has the evaluation key: where encrypted values live.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    client: Client,
    keys: Keys,
    /// Resource name of the key.
    key: String,
}

/// An encrypted value of the type that `T` is in the clear, or what one will be computed from.
///
/// Operators build expressions and compute nothing. `.await` does: one job, whose result stays on the server and may be part
/// of further expressions. [`decrypt`](Self::decrypt) does that where need be, and fetches and decrypts the result.
///
/// ```no_run
/// # async fn example(session: cloakwork_client::Session) -> Result<(), cloakwork_client::ClientError> {
/// let (balance, price) = (session.encrypt(100_u64)?, session.encrypt(30_u64)?);
/// let enough = balance.at_least(&price);
/// let rest = enough.select(&(&balance - &price), &balance).await?;
/// assert_eq!((&rest * 2).decrypt().await?, 140);
/// # Ok(())
/// # }
/// ```
pub struct Fhe<T> {
    session: Session,
    node: Arc<Node>,
    clear: PhantomData<fn() -> T>,
}

/// An encrypted boolean.
pub type FheBool = Fhe<bool>;
/// An encrypted integer.
pub type FheUint8 = Fhe<u8>;
/// An encrypted integer.
pub type FheUint16 = Fhe<u16>;
/// An encrypted integer.
pub type FheUint32 = Fhe<u32>;
/// An encrypted integer.
pub type FheUint64 = Fhe<u64>;
/// An encrypted integer.
pub type FheUint128 = Fhe<u128>;
/// An encrypted integer.
pub type FheInt8 = Fhe<i8>;
/// An encrypted integer.
pub type FheInt16 = Fhe<i16>;
/// An encrypted integer.
pub type FheInt32 = Fhe<i32>;
/// An encrypted integer.
pub type FheInt64 = Fhe<i64>;
/// An encrypted integer.
pub type FheInt128 = Fhe<i128>;

/// An encrypted value of any type.
pub trait AnyFhe: Sync + sealed::Sealed {}

impl<T> AnyFhe for Fhe<T> {}

mod sealed {
    use super::{Arc, Fhe, Node};

    pub trait Sealed {
        fn node(&self) -> &Arc<Node>;
    }

    impl<T> Sealed for Fhe<T> {
        fn node(&self) -> &Arc<Node> {
            &self.node
        }
    }
}

impl Session {
    /// On a server that has the evaluation key under that resource name.
    pub fn new(client: Client, keys: Keys, key: &str) -> Self {
        Self(Arc::new(Inner { client, keys, key: key.to_owned() }))
    }

    /// Encrypts a value. It travels with the first job that needs it.
    pub fn encrypt<T: Clear>(&self, value: T) -> Result<Fhe<T>> {
        let list = self.0.keys.encrypt_integers(&[value.to_integer()], T::TYPE)?;
        Ok(self.value(Node::new(T::TYPE, Origin::Fresh(list))))
    }

    /// A value that everybody may know: what is computed with it takes fewer bootstraps.
    pub fn constant<T: Clear>(&self, value: T) -> Fhe<T> {
        self.value(Node::new(T::TYPE, Origin::Constant(value.to_integer())))
    }

    /// A value that is on the server already, as [`Fhe::name`] gave it.
    pub async fn stored<T: Clear>(&self, name: &str) -> Result<Fhe<T>> {
        let described = self.0.client.describe(name).await?;
        if described.count != T::TYPE.blocks() as u64 {
            let problem = format!("{name} holds {} blocks: {} has {}", described.count, T::TYPE, T::TYPE.blocks());
            return Err(ClientError::malformed(problem));
        }
        let stored = Stored { name: name.to_owned(), noise_level: described.noise_level_max };
        Ok(self.value(Node::new(T::TYPE, Origin::Stored(stored))))
    }

    /// Computes several values by one job. They stay on the server. What has been computed is not computed again.
    pub async fn compute(&self, values: &[&dyn AnyFhe]) -> Result<()> {
        let wanted: Vec<&Arc<Node>> = values.iter().map(|value| value.node()).filter(|node| node.is_open()).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut builder = ProgramBuilder::new(self.0.keys.set());
        let leaves = node::write(&mut builder, &wanted);
        let mut request = JobRequest::new(builder.build()?, &self.0.key).outputs_by_name();
        for leaf in leaves {
            request = request.input(leaf);
        }
        let finished = self.0.client.run(&request).await?;
        for (index, node) in wanted.into_iter().enumerate() {
            let name = finished.output(index)?.name.clone();
            let noise_level = self.0.client.describe(&name).await?.noise_level_max;
            node.settle(Stored { name, noise_level });
        }
        Ok(())
    }

    fn value<T>(&self, node: Node) -> Fhe<T> {
        Fhe { session: self.clone(), node: Arc::new(node), clear: PhantomData }
    }
}

impl<T: Clear> Fhe<T> {
    /// Computes the value where need be, fetches it and decrypts it.
    pub async fn decrypt(&self) -> Result<T> {
        self.session.compute(&[self]).await?;
        let Inner { client, keys, .. } = &*self.session.0;
        let envelope = match self.node.leaf() {
            Some(Input::Name(name)) => client.ciphertext(&name).await?,
            Some(Input::Encrypted(list)) => list.envelope,
            None => return Ok(T::from_integer(&self.node.constant().unwrap_or_default())),
        };
        let values = keys.decrypt_integers(&envelope, T::TYPE)?;
        let value = values.first().ok_or_else(|| ClientError::malformed("a result without ciphertexts"))?;
        Ok(T::from_integer(value))
    }

    /// The resource name of the value on the server, once it has been computed.
    pub fn name(&self) -> Option<&str> {
        self.node.stored().map(|stored| &stored.name[..])
    }

    /// The same value of another type: cut off, or filled up with zeros or the sign.
    pub fn cast<U: Clear>(&self) -> Fhe<U> {
        self.session.value(Node::new(U::TYPE, Origin::Cast(self.node.clone())))
    }

    fn apply<U: Clear>(&self, kind: Kind, others: &[&Arc<Node>]) -> Fhe<U> {
        let operands = [&self.node].into_iter().chain(others.iter().copied()).cloned().collect();
        self.session.value(Node::new(U::TYPE, Origin::Operation(kind, operands)))
    }
}

impl<T> Clone for Fhe<T> {
    fn clone(&self) -> Self {
        Self { session: self.session.clone(), node: self.node.clone(), clear: PhantomData }
    }
}

impl<T> std::fmt::Debug for Fhe<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Fhe({})", self.node.ty())
    }
}

impl<T: Clear> IntoFuture for Fhe<T> {
    type Output = Result<Self>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Self>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            self.session.compute(&[&self]).await?;
            Ok(self)
        })
    }
}
