//! Settings that can change while the process runs.

use std::sync::{Arc, PoisonError, RwLock};

/// A setting that its owner can replace. All clones share the value.
#[derive(Debug, Default)]
pub struct Reloadable<T>(Arc<RwLock<Arc<T>>>);

impl<T> Reloadable<T> {
    /// Returns the present value. It does not change while the caller uses it.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the value for all later calls of [`Self::current`].
    pub fn replace(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

impl<T> From<T> for Reloadable<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(value))))
    }
}

impl<T> Clone for Reloadable<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_sees_the_new_value_and_a_reader_keeps_the_old_one() {
        let setting = Reloadable::from(1);
        let (clone, before) = (setting.clone(), setting.current());
        setting.replace(2);
        assert_eq!((*before, *clone.current()), (1, 2));
    }
}
