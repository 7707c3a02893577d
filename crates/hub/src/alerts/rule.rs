//! The rules.

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident $word:literal $severity:literal $ends:literal $title:literal;)*) => {
        /// What an alert is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[$doc])* $rule,)*
        }

        impl Rule {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$rule),*];

            /// Its word in JSON and in the database.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$rule => $word,)* }
            }

            /// `critical`, `high`, `medium` or `low`.
            #[must_use]
            pub fn severity(self) -> &'static str {
                match self { $(Self::$rule => $severity,)* }
            }

            /// Whether it is a condition, whose alert is closed when it is over.
            #[must_use]
            pub fn ends(self) -> bool {
                match self { $(Self::$rule => $ends,)* }
            }

            /// For people.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$rule => $title,)* }
            }
        }
    };
}

rules! {
    /// The log on the host was changed below a signed checkpoint.
    Tampered "tampered" "critical" false "The log was changed on its host";
    /// The log on the host contradicts the replica.
    Fork "fork" "high" false "The log contradicts its copy";
    /// Other bytes were sent than those stored.
    Contradiction "contradiction" "high" false "A shipper sends other bytes than before";
    /// Two shippers send different logs.
    TwoShippers "two_shippers" "high" false "Two shippers send to one server";
    /// A file of the replica was cut.
    ReplicaCut "replica_cut" "critical" false "The hub's copy was cut";
    /// The seal is broken.
    SealBroken "seal_broken" "critical" false "The seal is broken";
    /// Files or records are missing.
    Gap "gap" "high" false "Records are missing";
    /// The recorder declares lost records.
    Lost "lost" "high" false "The recorder lost records";
    /// A part of the log is not sealed.
    Unsealed "unsealed" "medium" true "The log is not sealed";
    /// Lines wait too long for their frame.
    UnsealedTail "unsealed_tail" "medium" true "New records are not sealed";
    /// No recorder runs.
    RecorderStopped "recorder_stopped" "critical" true "The recorder is not running";
    /// The recorder was switched off.
    LoggingOff "logging_off" "critical" false "Auditing was switched off";
    /// A setting that decides what is recorded was changed.
    RecorderChanged "recorder_changed" "high" false "A setting of the recorder was changed";
    /// Nothing was heard of the shipper.
    ShipperSilent "shipper_silent" "high" true "The shipper is silent";
    /// The shipper has ended in the orderly way.
    ShipperStopped "shipper_stopped" "medium" true "The shipper was stopped";
    /// The shipper reports a problem.
    ShipperProblem "shipper_problem" "medium" true "The shipper reports a problem";
    /// The clocks of host and hub differ.
    ClockSkew "clock_skew" "low" true "The clock of a server is wrong";
    /// Alerts wait for a receiver.
    Undelivered "undelivered" "high" true "Alerts are not delivered";
    /// The hub's disk is nearly full.
    DiskLow "disk_low" "high" true "The hub's disk is nearly full";
    /// The hub's disk will be full before the retention makes space.
    DiskForecast "disk_forecast" "medium" true "The hub's disk will be full";
    /// The hub accepts no logs.
    DiskFull "disk_full" "critical" true "The hub's disk is full";
    /// Files whose time is over cannot be removed.
    RetentionFailed "retention_failed" "medium" true "Old files cannot be removed";
    /// The hub cannot record what people do.
    OwnLog "own_log" "critical" true "The hub cannot write its own log";
}

impl Rule {
    /// The rule of a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.word() == word)
    }
}
