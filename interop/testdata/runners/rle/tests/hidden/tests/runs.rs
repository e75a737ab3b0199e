use rle::{decode, encode};

#[test]
fn counts_the_first() {
    assert_eq!(encode("aaab"), vec![(3, 'a'), (1, 'b')]);
    assert_eq!(encode("x").len(), 1, "one run");
}

#[test]
fn comes_back() {
    let text = "zzz é  k";
    assert_eq!(decode(&encode(text)), Ok("zzz é  k".to_string()));
    assert!(encode(text)[0].0 == 3);
}

#[test]
fn empty() {
    assert_eq!(encode("").len(), 0);
}

#[test]
fn a_count_of_nothing_is_an_error() {
    assert_eq!(decode(&[(0, 'q')]), Err("no 'q'".to_string()));
}
