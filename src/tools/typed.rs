//! Tools as typed functions. The input type defines the JSON Schema.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{ErrorStyle, ToolError};
use super::output::{FileChange, Output};
use super::tool::{Fallback, Tool, ToolContext};
use crate::domain::provenance::ResultOrigin;
use crate::domain::sub_agent::Task;
use crate::domain::tool::{ToolClass, ToolTiming};

/// A tool whose input is a Rust type.
pub trait TypedTool: fmt::Debug + Send + Sync + 'static {
    /// The name by which the model calls the tool.
    const NAME: &'static str;
    /// The description that the model reads: the purpose of the tool, its result and its limits.
    const DESCRIPTION: &'static str;
    /// The class of side effects that a call may have.
    const CLASS: ToolClass;
    /// The usual duration of a call.
    const TIMING: ToolTiming;
    /// The input. Doc comments become descriptions in the schema; serde defaults become defaults.
    type Input: DeserializeOwned + JsonSchema + Send;

    /// If set, a call may run concurrently with other calls of the same round.
    const IS_PARALLEL: bool = matches!(Self::CLASS, ToolClass::Pure);
    /// The origin of the text in the results.
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Service;
    /// The format of error texts for the model.
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Plain;

    /// The name of the sandbox in which calls run. `None` if the tool runs no program.
    fn sandbox(&self) -> Option<&'static str> {
        None
    }

    /// The URL that a call requests, for tools whose URL the model chooses.
    fn requested_url(_input: &Self::Input) -> Option<&str> {
        None
    }

    /// The origin of the text in the result of one call.
    fn result_origin(&self, _input: &RawValue) -> ResultOrigin {
        Self::RESULT_ORIGIN
    }

    /// The task that the call gives to a sub-agent. `None` if the call starts no sub-agent.
    fn task(_input: Self::Input) -> Option<Task> {
        None
    }

    /// The maximum duration of a call.
    fn deadline(&self, _input: &RawValue) -> Duration {
        Self::TIMING.deadline()
    }

    /// The fallback for a change that is not planned or made before its deadline.
    fn fallback(&self) -> Option<Fallback> {
        None
    }

    /// Executes a call. Tools of the class `Checkable` plan a change instead.
    fn run(
        &self,
        _context: &ToolContext,
        _input: Self::Input,
    ) -> impl Future<Output = Result<Output, ToolError>> + Send {
        async { Err(ToolError::Failed(format!("{} only changes files", Self::NAME))) }
    }

    /// Plans the change of one file. The service then makes the change.
    fn plan(
        &self,
        _context: &ToolContext,
        _input: Self::Input,
    ) -> impl Future<Output = Result<FileChange, ToolError>> + Send {
        async { Err(ToolError::Failed(format!("{} changes no file", Self::NAME))) }
    }
}

/// Adapter that implements [`Tool`] for a typed tool.
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

    fn requested_url(&self, input: &RawValue) -> Option<String> {
        let input = Self::read(input).ok()?;
        T::requested_url(&input).map(str::to_owned)
    }

    fn result_origin(&self, input: &RawValue) -> ResultOrigin {
        self.0.result_origin(input)
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
