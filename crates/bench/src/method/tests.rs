//! Tests of the methods' declarations.

use super::*;

#[test]
fn the_built_in_ones_are_right() {
    let methods = Methods::built_in().expect("good files");
    let drop = methods.get("tacho:drop").expect("a variant");
    assert_eq!(drop.on.last().unwrap(), "SET GLOBAL tacho_overflow = 'DROP'");
    assert_eq!(drop.plugin.as_deref(), Some("tacho"));
    let names: Vec<String> = methods.iter().map(|method| method.name.clone()).collect();
    for (file, _) in BUILT_IN {
        assert!(names.contains(&file.to_owned()), "{file} in {names:?}");
    }
}

#[test]
fn mistakes_in_a_file_are_found() {
    let add = |text: &str| Methods::default().add(text).map_err(|error| format!("{error:#}"));
    let head = "name = \"x\"\ntitle = \"X\"\nswitch = \"live\"\n";
    assert_eq!(add(head), Ok(()));
    for (line, complaint) in [
        ("on = [\"SET x = 1\"]", "SET GLOBAL variable = value"),
        ("on = [\"SET GLOBAL a=1, GLOBAL b=2\"]", "SET GLOBAL variable = value"),
        ("options = [\"log-bin\"]", "restart"),
        ("onn = []", "unknown field"),
        ("versions = { oracle = \"23\" }", "oracle"),
        ("component = { name = \"x\" }", "needs a plugin"),
        ("plugin = \"../x\"", "not a plugin name"),
    ] {
        let told = add(&format!("{head}{line}\n")).expect_err(line);
        assert!(told.contains(complaint), "{line}: {told}");
    }
    assert!(add("name = \"none\"\ntitle = \"\"\nswitch = \"live\"\n").is_err());
    assert!(add("name = \"x y\"\ntitle = \"\"\nswitch = \"live\"\n").is_err());
}

#[test]
fn a_method_has_the_names_of_its_server() {
    let methods = Methods::built_in().expect("good files");
    let tacho = |version: &str| {
        let method = methods.get("tacho:external").expect("a variant").clone();
        method.for_server(&Dialect::of_version(version))
    };
    let plugin = tacho("8.0.33");
    assert_eq!(plugin.library, Some(Library::Plugin("tacho".to_owned())));
    assert_eq!(plugin.on[0], "SET GLOBAL tacho_logging = ON");
    assert_eq!((plugin.switch, plugin.switch_installed), (Switch::Restart, Some(Switch::Live)));
    let component = tacho("9.7.4");
    assert_eq!(component.library, Some(Library::Component("component_tacho".to_owned())));
    assert_eq!(component.on[0], "SET GLOBAL tacho.logging = ON");
    assert_eq!(component.switch, Switch::Reconnect);
    assert_eq!(component.on.last().unwrap(), "SET GLOBAL tacho.writer = 'EXTERNAL'");
    assert_eq!(component.log, ["{tacho.directory}/audit-*.jsonl"]);
    assert_eq!(component.bytes_status.as_deref(), Some("tacho.bytes_written"));
    let companion = component.companion.expect("a recorder");
    assert_eq!(companion.command.last().unwrap(), "{tacho.directory}");
    // This program, not a variable.
    assert_eq!(companion.command[0], "{tacho}");
    assert_eq!(companion.status, "tacho.writer");
}

#[test]
fn finds_the_variable_that_is_set() {
    assert_eq!(variable_set_by("SET GLOBAL a_b = 1"), Some("a_b"));
    assert_eq!(variable_set_by(" set  global x:='y = z'"), Some("x"));
    assert_eq!(variable_set_by("SET GLOBAL tacho.logging = ON"), Some("tacho.logging"));
    assert_eq!(variable_set_by("SET GLOBALx = 1"), None);
    assert_eq!(variable_set_by("SET SESSION x = 1"), None);
    assert_eq!(variable_set_by("SETTLE"), None);
    assert_eq!(variable_set_by("SET @@GLOBAL.x = 1"), None);
    assert_eq!(variable_set_by("SET GLOBAL log_output = 'FILE,TABLE'"), Some("log_output"));
    assert_eq!(variable_set_by("SET GLOBAL a = 1, b = 2"), None);
}

#[test]
fn chooses_by_name() {
    let methods = Methods::built_in().expect("good files");
    let choose = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        methods.choose(&names).map(|found| found.into_iter().map(|m| m.name).collect::<Vec<_>>())
    };
    assert_eq!(choose(&["none", "tacho:drop", "tacho:drop"]).unwrap(), ["tacho:drop"]);
    let all = choose(&["server_audit:*"]).unwrap();
    assert_eq!(all, ["server_audit", "server_audit:buffered"]);
    assert!(choose(&["tach"]).unwrap_err().to_string().contains("tacho:drop"));
}
