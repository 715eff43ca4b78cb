// The job of a workgroup where all queries follow one live position. Goes with lib/attention/attention_flash_split.wgsl.

// The work of workgroup `index`, for its invocation `local`.
fn attend(index: u32, local: u32) {
    if (index >= params.workgroups) {
        return;
    }
    let job = job_of(index);
    let begin = first_key(job.tile * ROWS / GROUP);
    attend_to(job, begin + split_range(job.split, live_keys() - begin, 1u, MIN_SPLIT_KEYS), local);
}
