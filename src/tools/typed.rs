//! Tools as typed functions: the schema comes from the input's type.

use std::fmt;
use std::future::Future;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{FileChange, Tool, ToolContext, ToolError};
use crate::domain::tool::{ToolClass, ToolTiming};

/// A tool whose input is a Rust type.
pub trait TypedTool: fmt::Debug + Send + Sync + 'static {
    /// The name that the model uses.
    const NAME: &'static str;
    /// When to use it, what it returns, what not to use it for.
    const DESCRIPTION: &'static str;
    /// What it may do to the world.
    const CLASS: ToolClass;
    /// How long it usually takes.
    const TIMING: ToolTiming;
    /// The input; doc comments become descriptions, serde defaults become defaults.
    type Input: DeserializeOwned + JsonSchema + Send;

    /// Does it.
    fn run(
        &self,
        context: &ToolContext,
        input: Self::Input,
    ) -> impl Future<Output = Result<Output, ToolError>> + Send;

    /// The change of one file that a call is about to make. Checkable tools say it.
    fn planned_change(
        &self,
        _context: &ToolContext,
        _input: Self::Input,
    ) -> impl Future<Output = Result<FileChange, ToolError>> + Send {
        async { Err(ToolError::Failed(format!("{} changes no file", Self::NAME))) }
    }
}

/// What a typed tool returns. The model always reads a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output(String);

impl Output {
    /// A value as its JSON text.
    pub fn json<T: Serialize>(value: &T) -> Result<Self, ToolError> {
        serde_json::to_string(value)
            .map(Self)
            .map_err(|error| ToolError::Failed(format!("the result cannot be written: {error}")))
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// A typed tool as the registry takes it.
#[derive(Debug)]
pub struct Typed<T>(pub T);

impl<T: TypedTool> Typed<T> {
    fn read(input: &RawValue) -> Result<T::Input, ToolError> {
        serde_json::from_str(input.get())
            .map_err(|error| ToolError::Invalid(format!("invalid input for {}: {error}", T::NAME)))
    }
}

impl<T: TypedTool> Tool for Typed<T> {
    fn name(&self) -> &str {
        T::NAME
    }

    fn description(&self) -> &str {
        T::DESCRIPTION
    }

    fn input_schema(&self) -> Value {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T::Input>();
        schema.remove("title");
        schema.to_value()
    }

    fn class(&self) -> ToolClass {
        T::CLASS
    }

    fn timing(&self) -> ToolTiming {
        T::TIMING
    }

    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        async move { Ok(self.0.run(context, Self::read(input)?).await?.0) }.boxed()
    }

    fn planned_change<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<FileChange, ToolError>> {
        async move { self.0.planned_change(context, Self::read(input)?).await }.boxed()
    }
}
