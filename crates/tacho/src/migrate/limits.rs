//! How much of the log is kept: their number of files, and what becomes of our limit by age.

use tacho_settings::Setting;

use super::Plan;

/// What their settings say about rotated files.
pub(super) enum Rotations {
    /// So many beside the current one.
    Kept(u64),
    /// They never rotate, so nothing is removed.
    Never,
    /// No number.
    Unknown,
}

impl Rotations {
    /// `count`: the value of their setting, unless it is no number.
    pub(super) fn of(count: Option<u64>) -> Rotations {
        match count {
            None => Rotations::Unknown,
            Some(0) => Rotations::Never,
            Some(count) => Rotations::Kept(count),
        }
    }
}

/// Limits our log as theirs was limited: by the number of complete files, and by the disk space that
/// these and the current one could take, at `size` bytes each. Says what that means for the limit by age,
/// which only ours has.
pub(super) fn limit(
    plan: &mut Plan,
    size: u64,
    rotations: &Rotations,
    shown_size: &str,
    shown: &str,
) {
    match rotations {
        Rotations::Kept(count) => {
            keep_files(plan, *count, shown);
            let bytes = size.saturating_mul(count.saturating_add(1));
            let comment = format!(
                "{shown_size}, {shown}: the disk space of their files; ours count with their sidecars. \
                 The limit that is reached first holds. Lines of ours are longer: to keep as many days, \
                 raise tacho_rotate_bytes and this"
            );
            plan.set_number(Setting::RetentionBytes, bytes, comment);
            let comment = format!(
                "The default, no setting of theirs. The limits above hold as well, and usually end \
                 first: {} files of {size} bytes are NOT a record of six months, which regulation \
                 usually demands, if the server fills them sooner. To keep six months, set \
                 tacho_retention_files = 0 and tacho_retention_bytes = 0, give the log the disk space, \
                 and check Tacho_files_days. To remove nothing by age, as theirs, set this to 0",
                count.saturating_add(1)
            );
            plan.set_default(Setting::RetentionDays, comment);
        }
        Rotations::Never => unlimited(plan, &format!("{shown}: theirs never rotate, and keep all")),
        Rotations::Unknown => {
            plan.remark(format!(
                "{shown}: this is no number. Nothing limits the disk space of the log but \
                 tacho_retention_days"
            ));
            unlimited(plan, shown);
        }
    }
}

/// Says that nothing but age limits our log.
pub(super) fn unlimited(plan: &mut Plan, shown: &str) {
    let comment = format!(
        "{shown}. This is the default, no setting of theirs: closed files are removed after {} days, \
         the six months that regulation usually demands. The file that is written stays, however old. \
         To keep all, set this to 0. Nothing limits the disk space: see tacho_retention_bytes",
        Setting::RetentionDays.default_number()
    );
    plan.set_default(Setting::RetentionDays, comment);
}

fn keep_files(plan: &mut Plan, count: u64, shown: &str) {
    let comment =
        format!("{shown}: as many complete files beside the one that is written, as theirs");
    plan.set_number(Setting::RetentionFiles, count, comment);
}
