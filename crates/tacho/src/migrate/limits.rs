//! How much of the log is kept: their number of files, and the effect on our limit by age.

use tacho_settings::Setting;

use super::Plan;

/// Their settings for rotated files.
pub(super) enum Rotations {
    /// This many besides the current one.
    Kept(u64),
    /// They never rotate, so nothing is removed.
    Never,
    /// The setting is not a number.
    Unknown,
}

impl Rotations {
    /// `count`: the value of their setting, unless it is not a number.
    pub(super) fn of(count: Option<u64>) -> Rotations {
        match count {
            None => Rotations::Unknown,
            Some(0) => Rotations::Never,
            Some(count) => Rotations::Kept(count),
        }
    }
}

/// Limits our log as theirs was limited: by the number of complete files, and by the disk space
/// that these and the current one could take, at `size` bytes each. Documents the effect on the
/// limit by age, which only ours has.
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
                "{shown_size}, {shown}: the disk space of the old files; the new files count with their \
                 sidecars. The limit that is reached first applies. New lines are longer: to keep as many \
                 days, raise tacho_rotate_bytes and this"
            );
            plan.set_number(Setting::RetentionBytes, bytes, comment);
            let comment = format!(
                "The default; the old plugin has no such setting. The limits above also apply, and are \
                 usually reached first: {} files of {size} bytes are NOT a record of six months, which \
                 regulation usually requires, if the server fills them sooner. To keep six months, set \
                 tacho_retention_files = 0 and tacho_retention_bytes = 0, provide the disk space, and \
                 check Tacho_files_days. To remove nothing by age, as before, set this to 0",
                count.saturating_add(1)
            );
            plan.set_default(Setting::RetentionDays, comment);
        }
        Rotations::Never => {
            unlimited(plan, &format!("{shown}: the old files never rotate, and nothing is removed"))
        }
        Rotations::Unknown => {
            plan.remark(format!(
                "{shown}: not a number. Only tacho_retention_days limits the disk space of the log"
            ));
            unlimited(plan, shown);
        }
    }
}

/// Documents that only age limits our log.
pub(super) fn unlimited(plan: &mut Plan, shown: &str) {
    let comment = format!(
        "{shown}. The default; the old plugin has no such setting: closed files are removed after {} \
         days, the six months that regulation usually requires. The current file is never removed. To \
         keep all files, set this to 0. The disk space is unlimited: see tacho_retention_bytes",
        Setting::RetentionDays.default_number()
    );
    plan.set_default(Setting::RetentionDays, comment);
}

fn keep_files(plan: &mut Plan, count: u64, shown: &str) {
    let comment = format!("{shown}: the same number of complete files besides the current one");
    plan.set_number(Setting::RetentionFiles, count, comment);
}
