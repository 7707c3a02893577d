//! Maintenance of files: packing, other formats, retention, the inventory, and the check of free
//! space.

use tacho_logdir::{Fs, LogFiles};
use tacho_record::time::TimeFormatter;

use super::context::Context;
use super::inventory::InventoryWatch;
use super::packing::Packing;
use super::retention::{Needs, Removal, Retention};
use super::secondary_format::SecondaryFormat;
use super::space::SpaceWatch;
use super::stale::Stale;

/// The parts that maintain files, see the module documentation. Their threads end when it is
/// dropped.
#[derive(Default)]
pub(super) struct Upkeep {
    pub(super) packing: Packing,
    secondary_format: SecondaryFormat,
    retention: Retention,
    space: SpaceWatch,
    inventory: InventoryWatch,
}

impl Upkeep {
    fn refresh(&mut self, stale: Stale) {
        if stale.packing {
            self.packing.look_soon();
        }
        if stale.retention {
            self.retention.look_soon();
        }
        if stale.inventory {
            self.inventory.look_soon();
        }
    }

    /// Checks the free space at intervals.
    pub(super) fn watch_space<F: Fs>(&mut self, files: &LogFiles<F>, context: &Context) {
        self.space.look(files, context);
    }

    /// Applies the setting of the other format. Only with an empty batch.
    pub(super) fn follow_format<F: Fs>(&mut self, files: &mut LogFiles<F>, context: &Context) {
        let mut stale = Stale::default();
        self.secondary_format.follow(files, &mut stale, context);
        self.refresh(stale);
    }

    /// Informs the thread that writes the other format of new lines.
    pub(super) fn look_after_format<F: Fs>(&mut self, files: &mut LogFiles<F>, context: &Context) {
        let mut stale = Stale::default();
        self.secondary_format.look_after(files, &mut stale, context);
        self.refresh(stale);
    }

    /// Packs closed files, and removes expired ones. Only with an empty batch. Returns the next
    /// file to remove, whose line must then be written.
    pub(super) fn look_after_closed<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        context: &Context,
    ) -> Option<Removal> {
        let mut stale = Stale::default();
        let (secondary_format, leaving) = (&self.secondary_format, self.retention.leaving_name());
        let skips = |name| secondary_format.needs(name) || leaving == Some(name);
        self.packing.look_after(files, skips, &mut stale, context);
        self.refresh(stale);
        let mut stale = Stale::default();
        let needs = Needs { packing: &self.packing, secondary_format: &self.secondary_format };
        let removal = self.retention.look_after(files, &needs, &mut stale, context);
        self.refresh(stale);
        removal
    }

    /// Updates the figures about the log.
    pub(super) fn update_inventory<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        clock: &mut TimeFormatter,
        context: &Context,
    ) {
        self.inventory.update(files, self.packing.wanted(), clock, context);
    }

    /// Stops packing for good.
    pub(super) fn cancel_packing(&mut self) {
        self.packing.cancel();
    }

    /// Ends the threads before the lock of the directory is released: only one writer may pack a
    /// file.
    pub(super) fn end<F: Fs>(&mut self, files: &mut LogFiles<F>, context: &Context) {
        self.packing.end();
        self.secondary_format.end(files, context);
    }
}
