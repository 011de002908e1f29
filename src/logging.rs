//! Lines on standard error.
/// Whether a level or a list of directives can be understood.
pub fn check_level(level: &str) -> Result<(), String> {
    tracing_subscriber::EnvFilter::builder()
        .parse(level)
        .map(|_| ())
        .map_err(|error| error.to_string())
}
