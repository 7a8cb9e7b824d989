//! The heap of this process.

/// Gives pages back to the system that lie free between others in use. By itself the allocator gives back only what is free
/// above the last use; comparing the objects of a whole cluster leaves a third of the heap free below it.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "there is no safe function for it")]
    // SAFETY: it takes no pointer, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
