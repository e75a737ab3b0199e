//! Run lengths: "aaab" is 3a1b.

/// Counts of equal characters that follow each other.
pub fn encode(text: &str) -> Vec<(usize, char)> {
    let mut out: Vec<(usize, char)> = Vec::new();
    for c in text.chars() {
        match out.last_mut() {
            Some((n, last)) if *last == c => *n += 1,
            _ => out.push((0, c)),
        }
    }
    out
}

/// The text that `encode` was given; an error names the first count of nothing.
pub fn decode(runs: &[(usize, char)]) -> Result<String, String> {
    let mut out = String::new();
    for (n, c) in runs {
        if *n == 0 {
            return Err(format!("no {c:?}"));
        }
        out.extend(std::iter::repeat_n(*c, *n));
    }
    Ok(out)
}
