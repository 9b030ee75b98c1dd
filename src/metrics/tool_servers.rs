//! Metrics of the tool servers, read when the metrics are scraped.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::domain::tool_server::ToolServerReport;

/// Reads the status of the tool servers.
pub type ReadReports = Box<dyn Fn() -> Vec<ToolServerReport> + Send + Sync>;

/// The collector of tool server metrics.
pub(super) struct ToolServerMetrics(pub(super) ReadReports);

impl fmt::Debug for ToolServerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolServerMetrics").finish_non_exhaustive()
    }
}

impl Collector for ToolServerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let reports = (self.0)();
        let help = "Requests to tool servers, by outcome";
        let mut calls =
            encoder.encode_descriptor("mcp_requests", help, None, MetricType::Counter)?;
        for report in &reports {
            for (outcome, count) in &report.calls {
                let labels = [("server", report.name.as_str()), ("outcome", outcome.as_str())];
                ConstCounter::new(*count).encode(calls.encode_family(&labels)?)?;
            }
        }
        let help = "1 while the tool server is connected, otherwise 0";
        let mut up = encoder.encode_descriptor("mcp_up", help, None, MetricType::Gauge)?;
        for report in &reports {
            let labels = [("server", report.name.as_str())];
            let is_up = i64::from(report.is_connected);
            ConstGauge::new(is_up).encode(up.encode_family(&labels)?)?;
        }
        let help = "Changes of a tool server's list of tools";
        let mut lists =
            encoder.encode_descriptor("mcp_list_changes", help, None, MetricType::Counter)?;
        for report in &reports {
            let labels = [("server", report.name.as_str())];
            ConstCounter::new(report.list_changes).encode(lists.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
