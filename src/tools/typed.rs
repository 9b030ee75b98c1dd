//! Tools as typed functions: the schema comes from the input's type.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ErrorStyle, Fallback, FileChange, Output, Tool, ToolContext, ToolError};
use crate::domain::sub_agent::Task;
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

    /// Whether calls of it may run beside others of their round.
    const IS_PARALLEL: bool = matches!(Self::CLASS, ToolClass::Pure);
    /// How the model is told of failures.
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Plain;

    /// In what confinement its calls run, if they are programs.
    fn sandbox(&self) -> Option<&'static str> {
        None
    }

    /// The address that a call visits, if the model may make one up.
    fn visits(_input: &Self::Input) -> Option<&str> {
        None
    }

    /// What a sub-agent is to do; none where the call starts none.
    fn task(_input: Self::Input) -> Option<Task> {
        None
    }

    /// How long a call may take.
    fn deadline(&self, _input: &RawValue) -> Duration {
        Self::TIMING.deadline()
    }

    /// What to do when a change could not be planned or made in time.
    fn fallback(&self) -> Option<Fallback> {
        None
    }

    /// Does it. Checkable tools plan a change instead.
    fn run(
        &self,
        _context: &ToolContext,
        _input: Self::Input,
    ) -> impl Future<Output = Result<Output, ToolError>> + Send {
        async { Err(ToolError::Failed(format!("{} only changes files", Self::NAME))) }
    }

    /// The change of one file that a call comes to. It is made by the service.
    fn plan(
        &self,
        _context: &ToolContext,
        _input: Self::Input,
    ) -> impl Future<Output = Result<FileChange, ToolError>> + Send {
        async { Err(ToolError::Failed(format!("{} changes no file", Self::NAME))) }
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

    fn deadline(&self, input: &RawValue) -> Duration {
        self.0.deadline(input)
    }

    fn runs_in_parallel(&self) -> bool {
        T::IS_PARALLEL
    }

    fn error_style(&self) -> ErrorStyle {
        T::ERROR_STYLE
    }

    fn fallback(&self) -> Option<Fallback> {
        self.0.fallback()
    }

    fn sandbox(&self) -> Option<&'static str> {
        self.0.sandbox()
    }

    fn visits(&self, input: &RawValue) -> Option<String> {
        let input = Self::read(input).ok()?;
        T::visits(&input).map(str::to_owned)
    }

    fn task(&self, input: &RawValue) -> Option<Task> {
        T::task(Self::read(input).ok()?)
    }

    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        async move { self.0.run(context, Self::read(input)?).await }.boxed()
    }

    fn plan<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<FileChange, ToolError>> {
        async move { self.0.plan(context, Self::read(input)?).await }.boxed()
    }
}
