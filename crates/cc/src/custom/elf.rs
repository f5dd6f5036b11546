//! What an object file says, without running any of it: its names, what it asks of others, and the
//! bytes that lie in memory once it is mapped.

use std::ffi::{c_int, c_void};

use object::elf::{
    EM_AARCH64, EM_X86_64, ET_DYN, PF_W, PF_X, PT_LOAD, PT_TLS, R_AARCH64_ABS64, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT,
    R_AARCH64_RELATIVE, R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_RELATIVE, SHF_ALLOC, SHF_WRITE, SHT_FINI_ARRAY,
    SHT_INIT_ARRAY, SHT_PREINIT_ARRAY, SHT_RELR, STT_GNU_IFUNC, STT_OBJECT, STT_TLS,
};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SymbolFlags, SymbolSection};

unsafe extern "C" {
    fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
    fn memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
    fn memset(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void;
    fn memcmp(one: *const c_void, other: *const c_void, bytes: usize) -> c_int;
    fn __stack_chk_fail();
}

/// What a compiler calls by itself, and kernels have too.
fn known(name: &str) -> Option<u64> {
    Some(match name {
        "memcpy" => memcpy as *const () as u64,
        "memmove" => memmove as *const () as u64,
        "memset" => memset as *const () as u64,
        "memcmp" => memcmp as *const () as u64,
        "__stack_chk_fail" => __stack_chk_fail as *const () as u64,
        _ => return None,
    })
}

/// Whatever is mapped has no more.
const MOST_BYTES: u64 = 16 << 20;

/// What a compiled file holds that no algorithm may have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Variables that outlive a call.
    pub variables: Vec<String>,
    /// Names of others that it uses, but for those that a compiler uses by itself.
    pub used: Vec<String>,
    /// What a loader would run before anything is called: sections, and functions that choose a
    /// function.
    pub runs_by_itself: Vec<String>,
}

type File<'a> = ElfFile64<'a, LittleEndian>;

/// Looks through an object file, linked or not.
pub fn contents(bytes: &[u8]) -> Result<Contents, String> {
    let file = parsed(bytes)?;
    let mut found = Contents::default();
    for section in file.sections() {
        let name = section.name().unwrap_or_default();
        let array = matches!(section.elf_section_header().sh_type.get(LittleEndian), SHT_INIT_ARRAY | SHT_FINI_ARRAY | SHT_PREINIT_ARRAY);
        let named = [".init", ".fini", ".ctors", ".dtors", ".preinit_array", ".init_array", ".fini_array"];
        if section.size() > 0
            && (array || named.iter().any(|start| name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))))
        {
            found.runs_by_itself.push(name.to_owned());
        }
    }
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let name = symbol.name().unwrap_or_default();
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
        match st_info.st_type() {
            STT_GNU_IFUNC => found.runs_by_itself.push(name.to_owned()),
            STT_TLS => found.variables.push(name.to_owned()),
            STT_OBJECT if in_writable(&file, symbol.section()) => found.variables.push(name.to_owned()),
            _ if symbol.is_undefined() && !name.is_empty() && known(name).is_none() => found.used.push(name.to_owned()),
            _ => {}
        }
    }
    for names in [&mut found.variables, &mut found.used, &mut found.runs_by_itself] {
        names.sort();
        names.dedup();
    }
    Ok(found)
}

/// Whether a running program could write there; tables with addresses in them are written only when
/// they are mapped.
fn in_writable(file: &File<'_>, place: SymbolSection) -> bool {
    match place {
        SymbolSection::Common => true,
        SymbolSection::Section(index) => file.section_by_index(index).is_ok_and(|section| {
            let flags = section.elf_section_header().sh_flags(LittleEndian);
            let linkers_own =
                [".data.rel.ro", ".dynamic", ".got"].iter().any(|start| section.name().is_ok_and(|name| name.starts_with(start)));
            flags.0 & SHF_WRITE.0 != 0 && flags.0 & SHF_ALLOC.0 != 0 && !linkers_own
        }),
        _ => false,
    }
}

fn parsed(bytes: &[u8]) -> Result<File<'_>, String> {
    File::parse(bytes).map_err(|error| format!("it is no object of this machine: {error}"))
}

/// A shared object as it lies in memory.
#[derive(Debug)]
pub(super) struct Image {
    /// From its lowest address on.
    pub(super) bytes: Vec<u8>,
    /// Where a part begins, how long it is, and whether it is code.
    pub(super) parts: Vec<(usize, usize, bool)>,
    /// Where an address of it stands: the addend.
    relative: Vec<(usize, u64)>,
    symbols: Vec<(String, usize, usize)>,
}

impl Image {
    /// An error says what the object has that no algorithm may have.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, String> {
        let file = parsed(bytes)?;
        let machine = if cfg!(target_arch = "x86_64") { EM_X86_64 } else { EM_AARCH64 };
        let header = file.elf_header();
        if header.e_machine(LittleEndian) != machine || header.e_type(LittleEndian) != ET_DYN {
            return Err("it is no shared object of this machine".to_owned());
        }
        let held = contents(bytes)?;
        for (names, what) in [
            (&held.runs_by_itself, "runs when it is loaded, before anything is called"),
            (&held.used, "is of another's, which no kernel has"),
            (&held.variables, "is a variable that outlives a call"),
        ] {
            if let Some(name) = names.first() {
                return Err(format!("{name} {what}: take it out"));
            }
        }
        if file.sections().any(|section| section.elf_section_header().sh_type.get(LittleEndian) == SHT_RELR) {
            return Err("its addresses are packed (SHT_RELR): link it with -z nopack-relative-relocs".to_owned());
        }
        let mut image = Self { bytes: Vec::new(), parts: Vec::new(), relative: Vec::new(), symbols: Vec::new() };
        for segment in file.elf_program_headers() {
            image.add_segment(segment, bytes)?;
        }
        for symbol in file.dynamic_symbols().filter(|symbol| !symbol.is_undefined()) {
            let name = symbol.name().unwrap_or_default().to_owned();
            image.symbols.push((name, symbol.address() as usize, symbol.size() as usize));
        }
        image.relocate(&file)?;
        Ok(image)
    }

    fn add_segment(&mut self, segment: &object::elf::ProgramHeader64<LittleEndian>, bytes: &[u8]) -> Result<(), String> {
        let (kind, flags) = (segment.p_type(LittleEndian), segment.p_flags(LittleEndian));
        if kind == PT_TLS || (flags.0 & PF_W.0 != 0 && flags.0 & PF_X.0 != 0) {
            return Err("it wants memory that is written and run, or a thread's own".to_owned());
        }
        if kind != PT_LOAD {
            return Ok(());
        }
        let (at, length) = (segment.p_vaddr(LittleEndian), segment.p_memsz(LittleEndian));
        let end = at.checked_add(length).filter(|end| *end <= MOST_BYTES).ok_or("it is too large")? as usize;
        let content = segment.data(LittleEndian, bytes).map_err(|()| "it is cut off")?;
        if content.len() as u64 > length {
            return Err("a part of it is longer than its place".to_owned());
        }
        let at = at as usize;
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[at..at + content.len()].copy_from_slice(content);
        self.parts.push((at, end - at, flags.0 & PF_X.0 != 0));
        Ok(())
    }

    fn relocate(&mut self, file: &File<'_>) -> Result<(), String> {
        let x86 = cfg!(target_arch = "x86_64");
        for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let addend = relocation.addend() as u64;
            let at = at as usize;
            match (r_type, relocation.target()) {
                (R_X86_64_RELATIVE, _) if x86 => self.relative.push((at, addend)),
                (R_AARCH64_RELATIVE, _) if !x86 => self.relative.push((at, addend)),
                (R_X86_64_64 | R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT, RelocationTarget::Symbol(index)) if x86 => {
                    self.refer(file, at, index, addend)?;
                }
                (R_AARCH64_ABS64 | R_AARCH64_GLOB_DAT | R_AARCH64_JUMP_SLOT, RelocationTarget::Symbol(index)) if !x86 => {
                    self.refer(file, at, index, addend)?;
                }
                _ => {
                    return Err(format!(
                        "a function of it chooses another one when it is loaded, or it is linked in a way that is not known (relocation {r_type})"
                    ));
                }
            }
            if at.checked_add(8).is_none_or(|end| end > self.bytes.len()) {
                return Err("an address stands outside of it".to_owned());
            }
        }
        self.moved_to(0);
        Ok(())
    }

    fn refer(&mut self, file: &File<'_>, at: usize, index: object::SymbolIndex, addend: u64) -> Result<(), String> {
        let table = file.dynamic_symbol_table().ok_or("it names nothing")?;
        let symbol = object::ObjectSymbolTable::symbol_by_index(&table, index).map_err(|error| error.to_string())?;
        if !symbol.is_undefined() {
            self.relative.push((at, symbol.address().wrapping_add(addend)));
            return Ok(());
        }
        let name = symbol.name().unwrap_or_default();
        let address = known(name).ok_or_else(|| format!("{name} is of another's, which no kernel has: take it out"))?;
        let place = self.bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()).ok_or("an address stands outside of it")?;
        *place = address.wrapping_add(addend).to_le_bytes();
        Ok(())
    }

    /// Writes its addresses as they are if it begins at `base`.
    pub(super) fn moved_to(&mut self, base: u64) {
        for (at, addend) in &self.relative {
            let value = base.wrapping_add(*addend).to_le_bytes();
            if let Some(place) = self.bytes.get_mut(*at..).and_then(|rest| rest.first_chunk_mut()) {
                *place = value;
            }
        }
    }

    /// Where a symbol of at least this size lies.
    pub(super) fn place(&self, name: &str, size: usize) -> Option<usize> {
        let (_, at, there) = self.symbols.iter().find(|(known, ..)| known == name)?;
        (*there >= size && at.checked_add(size).is_some_and(|end| end <= self.bytes.len())).then_some(*at)
    }
}
