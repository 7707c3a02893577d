//! From registers and stack to the running functions, with the files' unwind tables.
//!
//! Only two registers of a sleeping thread are known. The others are *unknown*, not zero: if a
//! table needs one that no inner function has saved, unwinding ends with that reason. There is one
//! exception, see [`FrameSizes`].

use std::collections::HashMap;

use gimli::{
    CfaRule, Encoding, EvaluationResult, Format, Location, Register, RegisterRule,
    UnwindExpression, Value, X86_64,
};

use crate::frame_sizes::FrameSizes;
use crate::image::Row;
use crate::memory::Stack;
use crate::modules::Modules;
use crate::task::Tid;

/// Registers of unwind tables: 16, and the return address.
pub const REGISTER_COUNT: usize = 17;
const RSP: usize = X86_64::RSP.0 as usize;
const RETURN_ADDRESS: usize = X86_64::RA.0 as usize;

/// Registers that a function must preserve (System V ABI, x86-64).
const CALLEE_SAVED: [Register; 6] =
    [X86_64::RBX, X86_64::RBP, X86_64::R12, X86_64::R13, X86_64::R14, X86_64::R15];

/// Deeper stacks are cut off here.
pub const FRAMES_MAX: usize = 1024;

/// The known registers of a thread, by their DWARF numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers(pub [Option<u64>; REGISTER_COUNT]);

impl Registers {
    /// For a thread about which nothing else is known.
    pub fn sleeping(sp: u64, pc: u64) -> Self {
        let mut registers = [None; REGISTER_COUNT];
        registers[RSP] = Some(sp);
        registers[RETURN_ADDRESS] = Some(pc);
        Self(registers)
    }

    /// Program counter.
    pub fn pc(&self) -> Option<u64> {
        self.0[RETURN_ADDRESS]
    }

    /// Stack pointer.
    pub fn sp(&self) -> Option<u64> {
        self.0[RSP]
    }

    fn of(&self, register: Register) -> Result<u64, End> {
        self.0.get(usize::from(register.0)).copied().flatten().ok_or(End::UnknownRegister)
    }
}

/// How unwinding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the start of the thread.
    Complete,
    /// A register with an unknown value is needed.
    UnknownRegister,
    /// A word of the stack is needed that was not copied or does not exist.
    NoMemory,
    /// There is no unwind information for this address.
    NoTable,
    /// The tables contradict the memory.
    Nonsense,
    /// There are more than [`FRAMES_MAX`].
    TooDeep,
}

/// Addresses inside the functions on the stack, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// For a caller: inside its call, so that the address belongs to the calling function.
    pub addresses: Vec<u64>,
    /// How it ended.
    pub end: End,
}

/// Caches the rows of the tables for each address.
#[derive(Debug)]
pub struct Unwinder {
    rows: HashMap<u64, Option<Row>>,
    sizes: FrameSizes,
}

impl Unwinder {
    /// For threads of this process.
    pub fn new(pid: Tid) -> Self {
        Self { rows: HashMap::new(), sizes: FrameSizes::new(pid) }
    }

    /// Forgets everything, because the process has mapped other files.
    pub fn forget(&mut self) {
        self.rows.clear();
        self.sizes.forget();
    }

    /// Follows the calls outwards.
    pub fn trace(&mut self, modules: &Modules, start: Registers, stack: &mut Stack) -> Trace {
        let mut addresses = Vec::new();
        let mut registers = start;
        // An interrupted address is where the thread is; a return address is after the call,
        // perhaps in the next function.
        let mut is_interrupted = true;
        let end = loop {
            let Some(pc) = registers.pc() else { break End::UnknownRegister };
            if pc == 0 && !addresses.is_empty() {
                break End::Complete;
            }
            if addresses.len() == FRAMES_MAX {
                break End::TooDeep;
            }
            let address = if is_interrupted { pc } else { pc - 1 };
            addresses.push(address);
            let row = self.rows.entry(address).or_insert_with(|| modules.row(address));
            if let (Some(Row { is_signal: true, .. }), Some(last)) = (&row, addresses.last_mut()) {
                // It has no caller: the address was put there as the return address.
                *last = pc;
            }
            let step = match row {
                Some(row) => step(modules, &mut self.sizes, address, row, &registers, stack),
                // A jump to nowhere, or code without a table: if it is the innermost function, the
                // return address may still be on top.
                None if addresses.len() == 1 => leaf_step(modules, &registers, stack),
                None => Err(End::NoTable),
            };
            match step {
                Ok(caller) => {
                    let goes_up = caller.sp() > registers.sp();
                    is_interrupted = row.as_ref().is_some_and(|row| row.is_signal);
                    // A handler may have its own stack.
                    if !goes_up && !is_interrupted {
                        break End::Nonsense;
                    }
                    registers = caller;
                }
                Err(end) => break end,
            }
        };
        Trace { addresses, end }
    }
}

fn leaf_step(
    modules: &Modules,
    registers: &Registers,
    stack: &mut Stack,
) -> Result<Registers, End> {
    let sp = registers.of(X86_64::RSP)?;
    let pc = stack.word(sp).ok_or(End::NoMemory)?;
    if !modules.is_code(pc) {
        return Err(End::NoTable);
    }
    let mut caller = *registers;
    caller.0[RSP] = Some(sp + 8);
    caller.0[RETURN_ADDRESS] = Some(pc);
    Ok(caller)
}

fn step(
    modules: &Modules,
    sizes: &mut FrameSizes,
    address: u64,
    row: &Row,
    registers: &Registers,
    stack: &mut Stack,
) -> Result<Registers, End> {
    let evaluate = |expression: &UnwindExpression<usize>, first: Option<u64>, stack: &mut Stack| {
        evaluate(modules, address, expression, first, registers, stack)
    };
    let cfa = match &row.cfa {
        CfaRule::RegisterAndOffset { register, offset } => {
            let sp = registers.of(X86_64::RSP)?;
            match registers.of(*register) {
                Ok(value) => {
                    let cfa = value.wrapping_add_signed(*offset);
                    if *register != X86_64::RSP {
                        sizes.learn(address, cfa.wrapping_sub(sp));
                    }
                    cfa
                }
                Err(end) => sizes.cfa(address, row.start, sp, stack).ok_or(end)?,
            }
        }
        CfaRule::Expression(expression) => evaluate(expression, None, stack)?,
    };
    let mut caller = Registers::default();
    for register in CALLEE_SAVED {
        caller.0[usize::from(register.0)] = registers.0[usize::from(register.0)];
    }
    caller.0[RSP] = Some(cfa);
    let mut has_return_address = false;
    for (register, rule) in &row.registers {
        let Some(slot) = caller.0.get_mut(usize::from(*register)) else { continue };
        let is_return_address = usize::from(*register) == RETURN_ADDRESS;
        has_return_address |= is_return_address;
        let at = match rule {
            // This marks the start of a thread.
            RegisterRule::Undefined if is_return_address => return Err(End::Complete),
            RegisterRule::Undefined | RegisterRule::Architectural => {
                *slot = None;
                continue;
            }
            RegisterRule::SameValue => {
                *slot = registers.0[usize::from(*register)];
                continue;
            }
            RegisterRule::ValOffset(offset) => {
                *slot = Some(cfa.wrapping_add_signed(*offset));
                continue;
            }
            RegisterRule::Register(other) => {
                *slot = registers.0.get(usize::from(other.0)).copied().flatten();
                continue;
            }
            RegisterRule::ValExpression(expression) => {
                *slot = evaluate(expression, Some(cfa), stack).ok();
                continue;
            }
            RegisterRule::Constant(value) => {
                *slot = Some(*value);
                continue;
            }
            RegisterRule::Offset(offset) => cfa.wrapping_add_signed(*offset),
            RegisterRule::Expression(expression) => evaluate(expression, Some(cfa), stack)?,
        };
        *slot = stack.word(at);
        if is_return_address && slot.is_none() {
            return Err(End::NoMemory);
        }
    }
    if has_return_address { Ok(caller) } else { Err(End::NoTable) }
}

/// Computes an address from an expression of a table.
fn evaluate(
    modules: &Modules,
    address: u64,
    expression: &UnwindExpression<usize>,
    first: Option<u64>,
    registers: &Registers,
    stack: &mut Stack,
) -> Result<u64, End> {
    let image = modules.image_at(address).ok_or(End::NoTable)?;
    let expression = expression.get(&image.eh_frame()).map_err(|_| End::NoTable)?;
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
    let mut evaluation = expression.evaluation(encoding);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    let mut result = evaluation.evaluate().map_err(|_| End::Nonsense)?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = Value::Generic(registers.of(register)?);
                evaluation.resume_with_register(value)
            }
            EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                let word = stack.word(address).ok_or(End::NoMemory)?;
                evaluation.resume_with_memory(Value::Generic(word))
            }
            _ => return Err(End::Nonsense),
        }
        .map_err(|_| End::Nonsense)?;
    }
    match evaluation.result()[..] {
        [gimli::Piece { location: Location::Address { address }, .. }] => Ok(address),
        _ => Err(End::Nonsense),
    }
}
