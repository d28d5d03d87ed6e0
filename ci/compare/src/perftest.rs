//! perftest: how it is run, and what its tables say.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fabricbench::plan::Pattern;

use crate::{
    against_perftest::Cell,
    child::Running,
    port::{is_listening, wait_until_listening},
};

/// perftest's own default for the connection over which its two sides agree.
const PORT: u16 = 18515;

/// perftest prints MiB/s; before version 6.20 or so it calls them MB/sec.
const MIB: f64 = 1_048_576.0;

/// Time for the server to listen, and to end after its client.
const PATIENCE: Duration = Duration::from_secs(15);

/// What both sides are told.
#[derive(Debug)]
pub struct Perftest {
    /// RDMA device.
    pub device: String,
    /// GID index; perftest's own choice if `None`.
    pub gid_index: Option<u32>,
    /// Largest message sent inline; perftest's own choice if `None`.
    pub inline_size: Option<u32>,
    /// Processors of client and server.
    pub cpus: (u32, u32),
    /// Time after which a run is given up.
    pub limit: Duration,
}

impl Perftest {
    /// The version it states.
    ///
    /// # Errors
    /// It is not installed.
    pub fn version() -> Result<String> {
        // It exits with 1 after printing its version.
        Running::start("ib_write_lat", None, ["--version"])?
            .wait_and_read(PATIENCE, |text| {
                let version =
                    text.trim().strip_prefix("Version:").map(|text| text.trim().to_owned());
                version.context("no version")
            })
            .context("perftest is needed (ci/packages peers)")
    }

    /// One run: half a round trip in microseconds (the median, `t_typical`), or bytes per second.
    ///
    /// # Errors
    /// Either side failed, took too long, or printed no figure.
    pub fn measure(&self, cell: &Cell) -> Result<f64> {
        match self.measure_once(cell) {
            // Its calibration of the clock fails now and then, which says nothing of the device.
            Err(error) if error.is::<NoFigure>() => self.measure_once(cell),
            result => result,
        }
    }

    fn measure_once(&self, cell: &Cell) -> Result<f64> {
        let program = program(cell);
        ensure!(!is_listening(PORT), "another process listens on perftest's port {PORT}");
        let mut server = Running::start(&program, Some(self.cpus.1), self.arguments(cell))?;
        wait_until_listening(&mut server, PORT, PATIENCE).context("server")?;
        let mut arguments = self.arguments(cell);
        arguments.push("127.0.0.1".to_owned());
        let output = Running::start(&program, Some(self.cpus.0), arguments)?
            .wait(self.limit)
            .context("client")?;
        server.wait(PATIENCE).context("server")?;
        match cell.pattern {
            Pattern::Latency => typical_latency(&output, cell),
            Pattern::Rate => Ok(message_rate(&output, cell)? * 1e6),
            _ => Ok(average_bandwidth(&output, cell)? * MIB),
        }
        .with_context(|| program)
    }

    fn arguments(&self, cell: &Cell) -> Vec<String> {
        let mut arguments: Vec<String> = ["-F", "-d", &self.device].map(str::to_owned).into();
        let numbers = [
            ("-x", self.gid_index.map(u64::from)),
            ("-I", self.inline_size.map(u64::from)),
            ("-s", Some(cell.size)),
            ("-n", Some(cell.messages)),
        ];
        for (option, number) in numbers {
            arguments.extend(number.into_iter().flat_map(|n| [option.to_owned(), n.to_string()]));
        }
        arguments
    }
}

fn program(cell: &Cell) -> String {
    let test = match cell.pattern {
        Pattern::Latency => "lat",
        _ => "bw",
    };
    format!("ib_{}_{test}", cell.operation.name())
}

/// `t_typical[usec]`, the fifth column.
fn typical_latency(output: &str, cell: &Cell) -> Result<f64> {
    let (header, figures) = row(output, cell)?;
    let place = header.split_whitespace().position(|name| name == "t_typical[usec]");
    positive(figures.get(place.context("no column t_typical[usec]")?).copied())
}

/// `BW average`, the fourth column, in MiB/s.
fn average_bandwidth(output: &str, cell: &Cell) -> Result<f64> {
    let (header, figures) = row(output, cell)?;
    let unit = ["BW average[MB/sec]", "BW average[MiB/sec]"];
    ensure!(unit.iter().any(|name| header.contains(name)), "no column BW average in MiB/s");
    positive(figures.get(3).copied())
}

/// `MsgRate`, the fifth column, in millions a second.
fn message_rate(output: &str, cell: &Cell) -> Result<f64> {
    let (header, figures) = row(output, cell)?;
    ensure!(header.contains("MsgRate[Mpps]"), "no column MsgRate in millions a second");
    positive(figures.get(4).copied())
}

/// The header of the result table, and its one row.
fn row<'a>(output: &'a str, cell: &Cell) -> Result<(&'a str, Vec<f64>)> {
    let mut lines = output.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
    let header = lines.next().context("it printed no table")?;
    let row = lines.next().context("its table has no row")?;
    let figures = row.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
    let figures = figures.with_context(|| format!("no row of figures: {}", row.trim()))?;
    let wanted = [cell.size as f64, cell.messages as f64];
    ensure!(figures.starts_with(&wanted), "not what was asked for: {}", row.trim());
    Ok((header, figures))
}

/// perftest prints 0, `inf` or `-nan`, and ends well, when it could not calibrate its clock.
#[derive(Debug)]
struct NoFigure(f64);

impl std::fmt::Display for NoFigure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is no figure: it could not calibrate its clock", self.0)
    }
}

impl std::error::Error for NoFigure {}

fn positive(figure: Option<f64>) -> Result<f64> {
    match figure {
        Some(figure) if figure.is_finite() && figure > 0.0 => Ok(figure),
        Some(figure) => Err(NoFigure(figure).into()),
        None => bail!("its row is too short"),
    }
}

#[cfg(test)]
mod tests {
    use fabricbench::plan::VerbsOperation;

    use super::*;

    // Recorded from perftest 6.06 on rxe0.
    const LATENCY: &str = "\
---------------------------------------------------------------------------------------
                    RDMA_Write Latency Test
 Dual-port       : OFF\t\tDevice         : rxe0
 Number of qps   : 1\t\tTransport type : IB
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8192    500          108.54         9799.13      147.97   \t       701.91      \t1460.52\t\t6659.89 \t\t9799.13
---------------------------------------------------------------------------------------
";
    const BANDWIDTH: &str = "\
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      300              41.90              34.73  \t\t   0.000556
---------------------------------------------------------------------------------------
";

    fn cell(operation: VerbsOperation, pattern: Pattern, size: u64, messages: u64) -> Cell {
        Cell { operation, pattern, size, messages, tuned: false }
    }

    fn latency(text: &str) -> Result<f64> {
        typical_latency(text, &cell(VerbsOperation::Write, Pattern::Latency, 8192, 500))
    }

    fn bandwidth(text: &str) -> Result<f64> {
        average_bandwidth(text, &cell(VerbsOperation::Send, Pattern::Bandwidth, 65536, 300))
    }

    #[test]
    fn recorded_tables() {
        assert_eq!(latency(LATENCY).unwrap(), 147.97);
        assert_eq!(bandwidth(BANDWIDTH).unwrap(), 34.73);
        assert_eq!(bandwidth(&BANDWIDTH.replace("MB/", "MiB/")).unwrap(), 34.73);
        let reads = cell(VerbsOperation::Read, Pattern::Rate, 65536, 300);
        assert_eq!(message_rate(BANDWIDTH, &reads).unwrap(), 0.000556);
        // Its "MB" are 2^20: the message rate in the same row says so.
        let by_rate = 0.000556e6 * 65536.0 / MIB;
        assert!((by_rate / 34.73 - 1.0).abs() < 0.002, "{by_rate}");
    }

    #[test]
    fn what_is_no_figure_is_an_error() {
        let shows = |result: Result<f64>, part: &str| {
            let error = format!("{:#}", result.unwrap_err());
            assert!(error.contains(part), "{error}");
        };
        shows(latency("Couldn't allocate MR\n"), "no table");
        shows(latency(&LATENCY[..LATENCY.find(" 8192").unwrap()]), "no row");
        shows(latency(&LATENCY.replace(" 147.97", " inf")), "inf is no figure");
        shows(latency(&LATENCY.replace(" 147.97", " -nan")), "NaN is no figure");
        let uncalibrated = bandwidth(&BANDWIDTH.replace("34.73", "0.00")).context("program");
        assert!(uncalibrated.unwrap_err().is::<NoFigure>(), "through every context");
        shows(latency(&LATENCY.replace(" 147.97", " ?")), "no row of figures");
        shows(latency(&LATENCY.replace(" 147.97", " 0.00")), "0 is no figure");
        shows(latency(&LATENCY.replace("8192 ", "8193 ")), "not what was asked for");
        shows(latency(BANDWIDTH), "not what was asked for");
        shows(bandwidth(&BANDWIDTH.replace("MB/", "Gb/")), "no column BW average in MiB/s");
    }

    #[test]
    fn programs_and_arguments() {
        let perftest = Perftest {
            device: "rxe0".to_owned(),
            gid_index: Some(1),
            inline_size: Some(0),
            cpus: (0, 1),
            limit: PATIENCE,
        };
        let cell = cell(VerbsOperation::Send, Pattern::Bandwidth, 65536, 300);
        assert_eq!(program(&cell), "ib_send_bw");
        let read = Cell { operation: VerbsOperation::Read, pattern: Pattern::Latency, ..cell };
        assert_eq!(program(&read), "ib_read_lat");
        assert_eq!(perftest.arguments(&cell).join(" "), "-F -d rxe0 -x 1 -I 0 -s 65536 -n 300");
        let unasked = Perftest { gid_index: None, inline_size: None, ..perftest };
        assert_eq!(unasked.arguments(&cell).join(" "), "-F -d rxe0 -s 65536 -n 300");
    }
}
