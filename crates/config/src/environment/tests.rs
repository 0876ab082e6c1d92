use std::path::Path;

use super::Environment;

#[test]
fn data_stands_where_xdg_says() {
    let home = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Environment>().data_home();
    let path = |text: &str| Some(Path::new(text).to_owned());
    let both = [("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
    assert_eq!(home(&both), path("/x/toolkeep"));
    assert_eq!(home(&[("HOME", "/h")]), path("/h/.local/share/toolkeep"));
    let relative = [("XDG_DATA_HOME", "x"), ("HOME", "/h")];
    assert_eq!(home(&relative), path("/h/.local/share/toolkeep"));
    assert_eq!(home(&[]), None);
}

#[test]
fn debug_shows_no_value() {
    let environment: Environment = [("TOKEN", "hunter2")].into_iter().collect();
    assert_eq!(format!("{environment:?}"), "Environment(1 variables)");
}
