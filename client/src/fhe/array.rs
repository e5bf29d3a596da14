//! Arrays of encrypted values. An array is one input or output of a job, and programs compute on
//! its elements.

use std::{
    future::IntoFuture,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use super::{
    AnyFhe, Clear, Fhe, FheBool, Session,
    node::{List, Node, Origin, Source, Wanted, check_length},
    sealed,
};
use crate::{ClientError, Kind, Result};

/// Encrypted values of one type, which travel and are stored together.
///
/// ```no_run
/// # async fn example(session: cloakwork_client::Session) -> Result<(), cloakwork_client::ClientError> {
/// let (prices, counts) = (session.encrypt_array(&[3_u32, 5, 8])?, session.encrypt_array(&[10_u32, 0, 2])?);
/// assert_eq!(prices.dot(&counts)?.decrypt().await?, 46);
/// let dearest = prices.max().expect("it is not empty");
/// let cheaper = prices.map(|price| &dearest - price).await?;
/// assert_eq!(cheaper.decrypt().await?, [5, 3, 0]);
/// # Ok(())
/// # }
/// ```
pub struct FheArray<T> {
    session: Session,
    nodes: Vec<Arc<Node>>,
    /// The list that holds the whole array, once there is one.
    list: OnceLock<Arc<List>>,
    clear: PhantomData<fn() -> T>,
}

impl<T> AnyFhe for FheArray<T> {}

impl<T> sealed::Sealed for FheArray<T> {
    fn wanted(&self) -> Wanted<'_> {
        Wanted::Array(&self.nodes, &self.list)
    }
}

impl Session {
    /// Encrypts values as an array, which travels with the first job that needs it.
    pub fn encrypt_array<T: Clear>(&self, values: &[T]) -> Result<FheArray<T>> {
        check_length(values.len(), T::TYPE)?;
        match values.is_empty() {
            true => Ok(self.array(Vec::new())),
            false => Ok(self.of_list(self.fresh(values, Some(values.len()))?)),
        }
    }

    /// An array that is already on the server, under the name that [`FheArray::name`] returned.
    pub async fn stored_array<T: Clear>(&self, name: &str) -> Result<FheArray<T>> {
        let ((blocks, noise_level), each) = (self.describe(name).await?, T::TYPE.blocks());
        if !blocks.is_multiple_of(each) {
            let problem = format!("{name} holds {blocks} blocks: each {} has {each}", T::TYPE);
            return Err(ClientError::malformed(problem));
        }
        check_length(blocks / each, T::TYPE)?;
        let digest = self.0.client.list_digest(name, None).await?;
        let source = Source::Stored { name: name.to_owned(), digest, noise_level };
        Ok(self.of_list(Arc::new(List { source, length: Some(blocks / each) })))
    }

    fn of_list<T: Clear>(&self, list: Arc<List>) -> FheArray<T> {
        FheArray { list: OnceLock::from(list.clone()), ..self.array(list.nodes(T::TYPE)) }
    }

    fn array<T>(&self, nodes: Vec<Arc<Node>>) -> FheArray<T> {
        FheArray { session: self.clone(), nodes, list: OnceLock::new(), clear: PhantomData }
    }
}

impl<T: Clear> FheArray<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The element at an index.
    pub fn get(&self, index: usize) -> Option<Fhe<T>> {
        self.nodes.get(index).map(|node| self.session.of_node(node))
    }

    /// The elements.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Fhe<T>> + '_ {
        self.nodes.iter().map(|node| self.session.of_node(node))
    }

    /// Applies a function to each element.
    pub fn map<U: Clear>(&self, function: impl FnMut(&Fhe<T>) -> Fhe<U>) -> FheArray<U> {
        let elements: Vec<Fhe<T>> = self.iter().collect();
        self.session.array(elements.iter().map(function).map(|result| result.node).collect())
    }

    /// Applies a function to pairs of elements of two arrays, which must have one length.
    pub fn zip<U: Clear, V: Clear>(
        &self,
        other: &FheArray<U>,
        mut function: impl FnMut(&Fhe<T>, &Fhe<U>) -> Fhe<V>,
    ) -> Result<FheArray<V>> {
        self.same_length(other)?;
        let pairs = self.iter().zip(other.iter());
        Ok(self.session.array(pairs.map(|(left, right)| function(&left, &right).node).collect()))
    }

    /// The sum of all elements; 0 for an empty array.
    #[must_use]
    pub fn sum(&self) -> Fhe<T> {
        self.of_all(Kind::Sum, self.nodes.clone())
    }

    /// The sum of products of pairs of elements of two arrays, which must have one length.
    pub fn dot(&self, other: &Self) -> Result<Fhe<T>> {
        self.same_length(other)?;
        let pairs = self.nodes.iter().zip(&other.nodes);
        Ok(self.of_all(Kind::Dot, pairs.flat_map(|(left, right)| [left.clone(), right.clone()]).collect()))
    }

    /// Whether an element equals the value.
    pub fn contains(&self, value: &Fhe<T>) -> FheBool {
        if self.is_empty() { self.session.constant(false) } else { value.is_one_of(&self.iter().collect::<Vec<_>>()) }
    }

    /// The element at an encrypted index, counted from 0, which stays secret; 0 if the index is
    /// beyond the end.
    pub fn at(&self, index: &Fhe<u32>) -> Fhe<T> {
        let keys: Vec<Fhe<u32>> = (0..self.len() as u32).map(|key| self.session.constant(key)).collect();
        let elements: Vec<Fhe<T>> = self.iter().collect();
        let otherwise = self.session.value(Node::new(T::TYPE, Origin::Constant(Default::default())));
        if self.is_empty() { otherwise } else { index.choose(keys.iter().zip(&elements), &otherwise) }
    }

    /// The least element, or `None` for an empty array.
    pub fn min(&self) -> Option<Fhe<T>> {
        self.fold_in_pairs(Fhe::min)
    }

    /// The greatest element, or `None` for an empty array.
    pub fn max(&self) -> Option<Fhe<T>> {
        self.fold_in_pairs(Fhe::max)
    }

    /// Computes the elements if necessary, fetches them and decrypts them.
    pub async fn decrypt(&self) -> Result<Vec<T>> {
        self.session.compute(&[self]).await?;
        let values = self.session.reveal(&self.nodes, T::TYPE).await?;
        Ok(values.iter().map(T::from_integer).collect())
    }

    /// The resource name of the array on the server, once it has been computed as a whole.
    pub fn name(&self) -> Option<&str> {
        self.list.get()?.name()
    }

    /// Combines neighbours in rounds, so that chains of dependent operations stay short.
    fn fold_in_pairs(&self, combine: impl Fn(&Fhe<T>, &Fhe<T>) -> Fhe<T>) -> Option<Fhe<T>> {
        let mut level: Vec<Fhe<T>> = self.iter().collect();
        while level.len() > 1 {
            let pair = |pair: &[Fhe<T>]| match pair {
                [left, right] => combine(left, right),
                _ => pair[0].clone(),
            };
            level = level.chunks(2).map(pair).collect();
        }
        level.pop()
    }

    fn of_all(&self, kind: Kind, operands: Vec<Arc<Node>>) -> Fhe<T> {
        let origin = match operands.is_empty() {
            true => Origin::Constant(Default::default()),
            false => Origin::Operation(kind, operands),
        };
        self.session.value(Node::new(T::TYPE, origin))
    }

    fn same_length<U: Clear>(&self, other: &FheArray<U>) -> Result<()> {
        let (own, others) = (self.len(), other.len());
        if own == others { Ok(()) } else { Err(ClientError::Lengths { left: own, right: others }) }
    }
}

impl<T: Clear> Fhe<T> {
    /// Combines values of one session into an array.
    pub fn array<'a>(values: impl IntoIterator<Item = &'a Self>) -> Option<FheArray<T>> {
        let values: Vec<&Self> = values.into_iter().collect();
        let nodes = values.iter().map(|value| value.node.clone()).collect();
        values.first().map(|first| first.session.array(nodes))
    }
}

impl<T> Clone for FheArray<T> {
    fn clone(&self) -> Self {
        Self { list: self.list.clone(), ..self.session.array(self.nodes.clone()) }
    }
}

impl<T> std::fmt::Debug for FheArray<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "FheArray({})", self.nodes.len())
    }
}

impl<T: Clear> IntoFuture for FheArray<T> {
    type Output = Result<Self>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Self>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            self.session.compute(&[&self]).await?;
            Ok(self)
        })
    }
}
