//! Encrypted values with operators. Operators only record an expression. When the program awaits a
//! value, the whole expression becomes one program and one job.

mod array;
mod clear;
mod node;
mod operators;

use std::{
    collections::{HashMap, hash_map::Entry},
    future::IntoFuture,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
};

use self::node::{Element, List, Node, Origin, Source, Wanted};
pub use self::{array::FheArray, clear::Clear};
use crate::{Client, ClientError, Integer, JobRequest, Keys, Kind, ProgramBuilder, Result, Type};

/// The context of encrypted values: a client, its keys, and a server that has the evaluation key.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    client: Client,
    keys: Keys,
    /// Resource name of the key.
    key: String,
}

/// An encrypted value, or an expression for one. `T` is the type of the value in the clear.
///
/// Operators build expressions and compute nothing. `.await` computes the expression in one job.
/// The result stays on the server and may be part of further expressions.
/// [`decrypt`](Self::decrypt) computes the value if necessary, fetches the result and decrypts it.
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
/// An encrypted `u8`.
pub type FheUint8 = Fhe<u8>;
/// An encrypted `u16`.
pub type FheUint16 = Fhe<u16>;
/// An encrypted `u32`.
pub type FheUint32 = Fhe<u32>;
/// An encrypted `u64`.
pub type FheUint64 = Fhe<u64>;
/// An encrypted `u128`.
pub type FheUint128 = Fhe<u128>;
/// An encrypted `i8`.
pub type FheInt8 = Fhe<i8>;
/// An encrypted `i16`.
pub type FheInt16 = Fhe<i16>;
/// An encrypted `i32`.
pub type FheInt32 = Fhe<i32>;
/// An encrypted `i64`.
pub type FheInt64 = Fhe<i64>;
/// An encrypted `i128`.
pub type FheInt128 = Fhe<i128>;

/// An encrypted value of any type, or an array.
pub trait AnyFhe: Sync + sealed::Sealed {}

impl<T> AnyFhe for Fhe<T> {}

mod sealed {
    use super::{Fhe, Wanted};

    pub trait Sealed {
        fn wanted(&self) -> Wanted<'_>;
    }

    impl<T> Sealed for Fhe<T> {
        fn wanted(&self) -> Wanted<'_> {
            Wanted::Value(&self.node)
        }
    }
}

impl Session {
    /// A session on a server that has the evaluation key.
    pub async fn new(client: Client, keys: Keys) -> Result<Self> {
        let key = client.use_key(&keys).await?;
        Ok(Self(Arc::new(Inner { client, keys, key })))
    }

    /// Encrypts a value, which travels with the first job that needs it.
    pub fn encrypt<T: Clear>(&self, value: T) -> Result<Fhe<T>> {
        let list = self.fresh(&[value], None)?;
        Ok(self.of_node(&list.nodes(T::TYPE)[0]))
    }

    fn fresh<T: Clear>(&self, values: &[T], length: Option<usize>) -> Result<Arc<List>> {
        let values: Vec<Integer> = values.iter().map(|value| value.to_integer()).collect();
        let list = self.0.keys.encrypt_integers(&values, T::TYPE)?;
        Ok(Arc::new(List { source: Source::Fresh(list), length }))
    }

    /// A public value. Operations with a public operand take fewer bootstraps.
    pub fn constant<T: Clear>(&self, value: T) -> Fhe<T> {
        self.value(Node::new(T::TYPE, Origin::Constant(value.to_integer())))
    }

    /// A value that is already on the server, under the name that [`Fhe::name`] returned.
    pub async fn stored<T: Clear>(&self, name: &str) -> Result<Fhe<T>> {
        let (blocks, noise_level) = self.describe(name).await?;
        if blocks != T::TYPE.blocks() {
            let problem = format!("{name} holds {blocks} blocks: {} has {}", T::TYPE, T::TYPE.blocks());
            return Err(ClientError::malformed(problem));
        }
        let digest = self.0.client.list_digest(name, None).await?;
        let source = Source::Stored { name: name.to_owned(), digest, noise_level };
        Ok(self.of_node(&Arc::new(List { source, length: None }).nodes(T::TYPE)[0]))
    }

    /// Number of blocks of a list on the server, and its noise level.
    async fn describe(&self, name: &str) -> Result<(usize, u32)> {
        let described = self.0.client.describe(name).await?;
        Ok((usize::try_from(described.count).unwrap_or(usize::MAX), described.noise_level_max))
    }

    /// Computes several values in one job, and leaves them on the server. Values that have been
    /// computed are not computed again.
    pub async fn compute(&self, values: &[&dyn AnyFhe]) -> Result<()> {
        let wanted: Vec<Wanted<'_>> = values.iter().map(|value| value.wanted()).filter(Wanted::is_open).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut builder = ProgramBuilder::new(self.0.keys.set());
        let inputs = node::write(&mut builder, &wanted);
        let mut request = JobRequest::new(builder.build()?, &self.0.key).outputs_by_name();
        for input in inputs {
            request = request.input(input);
        }
        let finished = self.0.client.run(&request).await?;
        for (place, wanted) in wanted.into_iter().enumerate() {
            let output = finished.output(place)?;
            let (digest, name) = (output.digest()?, output.message.name);
            let (_, noise_level) = self.describe(&name).await?;
            wanted.settle(Source::Stored { name, digest, noise_level });
        }
        Ok(())
    }

    /// Decrypts nodes of one type that are computed already. Each list is fetched once.
    async fn reveal(&self, nodes: &[Arc<Node>], ty: Type) -> Result<Vec<Integer>> {
        let Inner { client, keys, .. } = &*self.0;
        let mut lists: HashMap<*const List, Vec<Integer>> = HashMap::new();
        let mut revealed = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some(Element { list, index }) = node.element() else {
                revealed.push(node.constant().unwrap_or_default());
                continue;
            };
            let values = match lists.entry(Arc::as_ptr(list)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let values = match &list.source {
                        Source::Fresh(list) => keys.decrypt_integers(list, ty)?,
                        Source::Stored { name, digest, .. } => {
                            let shape = keys.shape_of_integers(ty, list.length.unwrap_or(1));
                            keys.decrypt_integers(&client.known_list(name, *digest, shape).await?, ty)?
                        }
                    };
                    place.insert(values)
                }
            };
            let value = values.get(*index);
            revealed.push(*value.ok_or_else(|| ClientError::malformed("a result of too few ciphertexts"))?);
        }
        Ok(revealed)
    }

    fn of_node<T>(&self, node: &Arc<Node>) -> Fhe<T> {
        Fhe { session: self.clone(), node: node.clone(), clear: PhantomData }
    }

    fn value<T>(&self, node: Node) -> Fhe<T> {
        self.of_node(&Arc::new(node))
    }
}

impl<T: Clear> Fhe<T> {
    /// Computes the value if necessary, fetches it and decrypts it.
    pub async fn decrypt(&self) -> Result<T> {
        self.session.compute(&[self]).await?;
        let values = self.session.reveal(std::slice::from_ref(&self.node), T::TYPE).await?;
        Ok(T::from_integer(&values[0]))
    }

    /// The resource name of the value on the server, once it has been computed by itself. An
    /// element of an array has no name.
    pub fn name(&self) -> Option<&str> {
        self.node.element().filter(|element| element.list.length.is_none())?.list.name()
    }

    /// Converts to another type: truncates, or extends with zeros or the sign.
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
