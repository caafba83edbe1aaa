// SPDX-License-Identifier: Apache-2.0
// The flags come from the arguments of Megatron-LM (megatron/training/arguments.py, core 0.8 and
// later) and of BigScience's Megatron-DeepSpeed, and from the scripts of published trainings.
//
// Why the names of Megatron-LM, and why every one of its flags is known here.
//
// Who trains a GPT of this kind has a script with dozens of flags of pretrain_gpt.py, and published
// trainings are such scripts. A program with better names would ask each user to translate them,
// and a translation is where a training silently becomes another one: an initialization, a scale of
// the loss, an order of documents. With equal names and defaults the script is the test: the
// arguments of Megatron-LM's own functional tests are given to lm-train (tools/megatron-cases),
// which accepts 113 of 161 and refuses the others, and live.megatron_training compares the losses,
// which differ by at most 8e-7 (docs/megatron-flags.md).
//
// So a flag that has a meaning here keeps Megatron's name, meaning and default, even where a nicer
// name comes to mind.
//
// The others were the harder decision. Three ways are usual. An argparse program rejects an unknown
// flag, so users delete flags until it starts, the one that mattered among them. A program that
// ignores unknown flags (parse_known_args) trains another model without a word. A format of its
// own, such as DeepSpeed's JSON or a YAML, moves the problem to whoever converts. Here each flag
// that Megatron-LM has is in one of three lists, with a sentence that a person wrote:
//
// - It has its meaning.
// - It changes no result here, and is accepted with a note that states what happens instead. Flags
//   for the speed of PyTorch, for logging services and for NCCL are of this kind.
// - It would change a result, and is refused with the reason. A value that asks for what happens
//   anyway, such as --context-parallel-size 1, is accepted.
//
// When in doubt a flag is refused: a refusal costs a minute, a wrong model costs the run.
// Abbreviations of argparse are not accepted, because a flag that is added later changes what an
// abbreviation means.
//
// The price is a table of 700 flags that are not supported, and work for each release of
// Megatron-LM. tests/e2e/megatron_flag_table.sh fails when a flag of the recorded list is in none
// of the three, and writes the page of the manual from this table, so that the two cannot differ.
// The names are not beautiful, and some defaults are those of 2019: without a flag the precision is
// fp32, and dropout is 0.1.
//
// A name that Megatron-LM has given up, such as --DDP-impl, stays in the table, because scripts
// live longer than releases.
#include "config/megatron_flags.hpp"

#include <algorithm>
#include <string_view>

#include "spec/optimizer_state.hpp"

namespace lm::config {
namespace {

// A text that lm-train prints, and the flags for which it prints this text. Blanks separate the
// flags in `flags`. "--name" has no value, "--name=" has one value, "--name=*" has any number of
// values. "--name=X" is a refused flag with one value, but with the value X it is accepted, because
// X changes nothing. "--name,--alias" is one flag with two names.
struct Family {
    const char* text;
    const char* flags;
    // Refused flags that have no effect when the command line gives this one its neutral value.
    const char* harmless_with = "";
};

// Flags that are accepted without effect. The text states what lm-train does instead.
constexpr Family accepted[] = {
    {"the launcher and --device determine how ranks communicate",
     "--distributed-backend= --local-rank=,--local_rank= --use-tp-pp-dp-mapping "
     "--nccl-communicator-config-path= --use-nccl-ub --disable-symmetric-registration "
     "--high-priority-stream-groups=* --use-sharp --sharp-enabled-group= "
     "--create-all-gather-group --use-ring-exchange-p2p --fake-process-group "
     "--disable-gloo-process-groups "
     "--pipeline-model-parallel-comm-backend= --high-priority-a2a-comm-stream"},
    {"gradients are always in one contiguous fp32 buffer",
     "--DDP-impl= --use-contiguous-buffers-in-ddp --no-contiguous-buffers-in-local-ddp "
     "--use-contiguous-buffers-in-local-ddp"},
    {"gradients are always accumulated and reduced in fp32",
     "--ddp-param-name-patterns-for-fp32-local-accumulation=* "
     "--accumulate-allreduce-grads-in-fp32 --grad-reduce-in-bf16 "
     "--ddp-reduce-scatter-with-fp32-accumulation --attention-grad-in-fp32"},
    {"it affects no result",
     "--ddp-average-in-collective --ddp-num-buckets= --ddp-pad-buckets-for-high-nccl-busbw "
     "--no-gradient-reduce-div-fusion --no-delay-grad-reduce --delay-grad-reduce "
     "--delay-param-gather --no-align-grad-reduce --align-grad-reduce --no-align-param-gather "
     "--align-param-gather --overlap-param-gather-with-optimizer-step "
     "--defer-embedding-wgrad-compute --delay-wgrad-compute --wgrad-deferral-limit= "
     "--no-async-tensor-model-parallel-allreduce --no-scatter-gather-tensors-in-pipeline "
     "--no-overlap-p2p-communication --overlap-p2p-communication --enable-zbh1-pipeline "
     "--enable-zbh1-exact-semantics --overlap-p2p-communication-warmup-flush "
     "--microbatch-group-size-per-virtual-pipeline-stage= --batch-p2p-communication "
     "--tp-comm-overlap --tp-comm-overlap-cfg= --tp-comm-bootstrap-backend= "
     "--tp-comm-overlap-rs-dgrad --disable-tp-comm-bulk-dgrad --disable-tp-comm-bulk-wgrad "
     "--disable-tp-comm-overlap-ag --disable-tp-comm-overlap-rs --disable-tp-comm-split-ag "
     "--disable-tp-comm-split-rs --no-clone-scatter-output-in-embedding --train-sync-interval= "
     "--no-check-for-nan-in-loss-and-grad --cp-comm-type=* "
     "--no-tp-comm-bulk-dgrad --no-tp-comm-bulk-wgrad --no-tp-comm-overlap-ag "
     "--no-tp-comm-overlap-rs --no-tp-comm-split-ag --no-tp-comm-split-rs --symmetric-ar-type= "
     "--mlp-chunks-for-training= --batch-invariant-mode --batch-invariant-backend= "
     "--disable-bf16-reduced-precision-matmul --use-grouped-gemm-for-dense-mlp"},
    {"--use-distributed-optimizer divides the optimizer state over all data-parallel ranks, "
     "with the same results",
     "--num-distributed-optimizer-instances="},
    {"the optimizer is AdamW with fp32 state", "--sgd-momentum= --use-precision-aware-optimizer"},
    {"a validation also uses --micro-batch-size, with the same result", "--eval-micro-batch-size="},
    {"the data's format is read from its index", "--data-impl="},
    {"batches are read from mapped files without loader processes",
     "--num-workers= --valid-num-workers= --no-mmap-bin-files --dataloader-fast-cache-load "
     "--dataloader-defer-npy-index-mmap --disable-msc"},
    {"the data is repeated as often as needed", "--repeated-dataloader"},
    {"an index is built by --threads threads", "--num-dataset-builder-threads="},
    {"pages of the data are read on demand", "--mmap-warmup"},
    {"causal attention needs no mask in memory",
     "--create-attention-mask-in-dataloader --no-create-attention-mask-in-dataloader"},
    {"there is one implementation, chosen by the device",
     "--memory-efficient-layer-norm --fused-single-qkv-rope --flash-attention-version= "
     "--no-masked-softmax-fusion --no-bias-dropout-fusion --no-rope-fusion "
     "--no-persist-layer-norm --no-gradient-accumulation-fusion --no-bias-swiglu-fusion "
     "--abort-on-unmet-fused-kernel-constraints --use-flash-attn --transformer-impl= "
     "--use-flash-attn-v1 --use-flash-attn-v2 --use-flash-attn-triton --use-flash-attn-builder "
     "--disable-mem-efficient-ln "
     "--use-mcore-models --use-legacy-models --cross-entropy-loss-fusion "
     "--cross-entropy-fusion-impl= --use-fused-weighted-squared-relu --apply-rope-fusion "
     "--enable-cuda-graph --cuda-graph-impl= --cuda-graph-scope=* --cuda-graph-modules=* "
     "--cuda-graph-warmup-steps= --external-cuda-graph --optimizer-cuda-graph "
     "--use-te-activation-func --enable-experimental --fused-residual-rmsnorm "
     "--use-transformer-engine-op-fuser --disable-jit-fuser"},
    {"the softmax is always computed in fp32", "--attention-softmax-in-fp32"},
    {"the default of yarn", "--yarn-correction-range-round-to-int"},
    {"the loss is always computed in fp32", "--fp16-lm-cross-entropy --no-fp16-lm-cross-entropy"},
    {"attention scores are fp32, and scaling them by layer would not change the result",
     "--apply-query-key-layer-scaling"},
    {"attention scores are never scaled by layer", "--no-query-key-layer-scaling"},
    {"all copies of a parameter have the same bits after each step",
     "--sync-tp-duplicated-parameters"},
    {"DeepSpeed is not used; the file of --deepspeed_config is read", "--deepspeed"},
    {"DeepSpeed is not used",
     "--deepspeed-activation-checkpointing --no-pipeline-parallel --deepspeed_mpi --deepscale "
     "--zero-contigious-gradients --zero-reduce-scatter --zero-reduce-bucket-size= "
     "--zero-allgather-bucket-size= --remote-device= --use-pin-memory "
     "--contigious-checkpointing --synchronize-each-layer --checkpoint-in-cpu "
     "--memory-centric-tiled-linear --split-transformers --tile-factor= --ds_fused_adam"},
    {"initial weights depend only on the seed and the tensor, not on the device",
     "--use-cpu-initialization --no-initialization --init-model-with-meta-device"},
    {"nothing is initialized lazily", "--lazy-mpu-init"},
    {"--sequence-parallel divides stored activations over tensor ranks; without it each rank "
     "stores "
     "all",
     "--distribute-saved-activations --distribute-checkpointed-activations "
     "--partition-activations"},
    {"--recompute-granularity selective recomputes norms and activation functions",
     "--recompute-modules=*"},
    {"all memory is allocated once, before the first step",
     "--log-device-memory-used --empty-unused-memory-level= --log-memory-to-tensorboard "
     "--log-memory-interval="},
    {"there is no garbage collector", "--manual-gc --manual-gc-interval= --no-manual-gc-eval"},
    {"messages have no levels", "--log-level= --log-level-replica= --logging-level="},
    {"--benchmark prints the time of each operation",
     "--profile-backward --profile_steps= --no-barrier-with-level-1-timing --profile "
     "--profile-step-start= "
     "--profile-step-end= "
     "--profile-ranks=* --use-pytorch-profiler --record-memory-history --memory-snapshot-path= "
     "--nvtx-ranges --record-shapes --pytorch-profiler-collect-callstack "
     "--pytorch-profiler-collect-chakra --pytorch-profiler-collect-shapes"},
    {"--timing-log-level logs the smallest and the largest time over the ranks",
     "--timing-log-option="},
    {"no data is sent to a service: --tensorboard-dir and --log-json write the same figures",
     "--wandb-project= --wandb-exp-name= --wandb-save-dir= --wandb-entity= --no-one-logger "
     "--enable-one-logger --one-logger-async --one-logger-project= --one-logger-run-name= "
     "--app-tag-run-name= --app-tag-run-version= --otel-enabled --otel-service-name= "
     "--otel-span-groups="},
    {"the log and the checkpoints record the progress", "--log-progress"},
    {"--rerun-suspect repeats suspicious steps; --check-replicas compares the copies on different "
     "ranks",
     "--rerun-mode="},
    {"a step whose gradients are not finite is always skipped", "--check-for-nan-in-loss-and-grad"},
    {"SIGTERM always saves and stops",
     "--exit-signal-handler-for-dataloader --exit-signal-handler-for-training "
     "--exit-signal-handler --exit-signal="},
    {"exit code 75 means that the command must be run again",
     "--adlr-autoresume --adlr-autoresume-interval="},
    {"random numbers are a function of seed and position and have no state",
     "--no-save-rng --no-load-rng --te-rng-tracker --inference-rng-tracker"},
    {"checkpoints have one format, and all ranks write and read them",
     "--ckpt-fully-parallel-load-exchange-algo= --ckpt-fully-parallel-load-per-rank-objects "
     "--ckpt-fully-parallel-save-process-group= --ckpt-fully-parallel-load-process-group= "
     "--distrib-optim-fully-reshardable-mem-efficient --save-tokenizer-assets --ckpt-format= "
     "--dist-ckpt-format= --auto-detect-ckpt-format --use-dist-ckpt --ckpt-fully-parallel-save "
     "--no-ckpt-fully-parallel-save --ckpt-fully-parallel-load "
     "--ckpt-assume-constant-structure --dist-ckpt-strictness= --dist-ckpt-workers= "
     "--dist-ckpt-save-pre-mcore-014 --use-persistent-ckpt-worker "
     "--dist-ckpt-optim-fully-reshardable --ckpt-drop-redundant-extra-state "
     "--ckpt-convert-save= --async-strategy= --async-ckpt-use-cached-structure "
     "--async-ckpt-use-cpu-shm "
     "--async-ckpt-cpu-priority= --async-ckpt-io-priority= --ckpt-pg-tensors-cache-create "
     "--ckpt-pg-tensors-cache-path= --no-ckpt-load-validate-sharding-integrity "
     "--ckpt-convert-update-legacy-dist-opt-format --load-main-params-from-ckpt "
     "--no-save-tokenizer-assets"},
    {"all parts read from a checkpoint are compared with their digests", "--verify-integrity"},
    {"a training run contains no self-tests", "--test-mode"},
    {"every rank has a flight recorder, which it writes to --save at a timeout",
     "--flight-recorder-dump-path= --flight-recorder-include-stack-trace "
     "--flight-recorder-trace-buffer-size= --no-flight-recorder-dump-on-timeout "
     "--no-flight-recorder-extra-dump-on-exec --no-flight-recorder-include-only-active"},
    {"--distributed-timeout-minutes holds for the whole run",
     "--distributed-timeout-seconds-after-init="},
    {"--print-config and the checkpoints have the configuration", "--config-logger-dir="},
    {"the tokenizer comes from the flags or the data, and lm-train neither tokenizes nor pads",
     "--no-use-tokenizer-model-from-checkpoint-args --tokenizer-metadata= --null-tokenizer-pad-id= "
     "--use-gigatoken "
     "--no-tokenizer-sentencepiece-ignore-extra-whitespaces"},
    {"no code of a tokenizer is executed", "--trust-remote-code"},
    {"TensorBoard always gets every iteration", "--tensorboard-log-interval="},
    {"TensorBoard always gets the learning rate",
     "--no-log-learnig-rate-to-tensorboard --no-log-learning-rate-to-tensorboard"},
    {"TensorBoard always gets the loss scale of fp16", "--no-log-loss-scale-to-tensorboard"},
    {"the plan at the start shows the number of ranks", "--log-world-size-to-tensorboard"},
    {"TensorBoard gets no sums of the optimizer state", "--log-optimizer-states-to-tensorboard"},
    {"the ranks always compare their times, and a slow one is a warning",
     "--log-straggler --disable-straggler-on-startup --straggler-ctrlr-port= "
     "--straggler-minmax-count="},
    {"the start compares the speed of the GPUs of all hosts", "--gpu-sniff-test-interval="},
    {"a loss or gradient norm far above its recent range is always found: --on-spike has the "
     "reaction",
     "--check-for-spiky-loss --check-for-large-grads"},
    {"--log-json has each suspicious step", "--result-rejected-tracker-filename="},
    {"--local-save always has a copy on a partner host", "--replication --replication-jump="},
    {"a local checkpoint has one layout: each rank writes its part",
     "--non-persistent-local-ckpt-algo="},
    {"the log line has no energy: --codecarbon-dir writes it to files", "--log-energy"},
};

// Flags that are refused, with any number of values. The text states the reason and the remedy.
// "--x-*" stands for every name that starts with "--x-".
constexpr Family refused[] = {
    {"old name: use --tensor-model-parallel-size", "--model-parallel-size="},
    {"old name: use --micro-batch-size", "--batch-size,--batch_size="},
    {"old name: use --lr-warmup-fraction", "--warmup="},
    {"not supported: use --pp-partition-method",
     "--pipeline-model-parallel-layout= --standalone-embedding-stage "
     "--pipeline-model-parallel-split-rank= --hybrid-context-parallel"},
    {"not supported: use --valid-weighted-split-paths with one group for each set",
     "--multiple-validation-sets --validation-set-names=*"},
    {"not supported: use --eval-interval and --eval-iters",
     "--full-validation --start-eval-at-iter="},
    {"not supported: convert the checkpoint with lm-convert", "--ckpt-convert-format="},
    {"activations are not offloaded: --recompute-granularity stores fewer of them",
     "--fine-grained-activation-offloading --offload-modules=* "
     "--activation-offload-fraction= --cpu-offloading-retain-pinned-cpu-buffers "
     "--delay-offload-until-cuda-graph --delta-offload-bytes-across-pp-ranks= "
     "--fine-grained-offloading-max-inflight-offloads= --min-offloaded-tensor-size="},
    {"this figure is not logged: omit the flag",
     "--log-max-attention-logit --dump-param-to-param-group-map="},
    {"not supported: use lm-ckpt latest DIR STEP", "--override-ckpt-iteration="},
    {"not supported: use --load DIR --ckpt-step N", "--load-tag="},
    {"not supported: use --finetune, which starts at iteration 0 with these weights",
     "--reset-progress --reset-iteration"},
    {"not supported: use --override-opt_param-scheduler with the new schedule",
     "--no-load-lr-state"},
    {"not supported: give the flags of layout and tokenizer; a checkpoint loads in any layout",
     "--use-mp-args-from-checkpoint-args --use-tokenizer-model-from-checkpoint-args"},
    {"the index of each dataset is read instead: omit the flag", "--per-dataset-sequences-path="},
    {"not supported: give the flags on the command line", "--yaml-cfg="},
    {"models with this feature are not supported",
     "--mamba-* --disable-mamba-mem-eff-path --hybrid-* --dsa-* --mhc-* --mup-* "
     "--heterogeneous-* "
     "--relative-attention-* --linear-* --mtp-* --indexer-* --gdp-* --use-mup --softmax-scale= "
     "--experimental-attention-variant= "
     "--original-max-position-embeddings= --mrope-section= --layernorm-zero-centered-gamma "
     "--apply-residual-connection-post-layernorm --onnx-safe --qk-l2-norm "
     "--embedding-weights-in-fp32 "
     "--qk-clip --rope-type=rope "
     "--multi-latent-attention "
     "--q-lora-rank= --kv-lora-rank= --qk-head-dim= --qk-pos-emb-head-dim= --v-head-dim= "
     "--cache-mla-latents --mla-down-proj-fusion --spec= "
     "--is-hybrid-model --quick-geglu --scattered-embeddings --softmax-type=vanilla "
     "--attention-output-gate --glu-linear-offset=0 --activation-func-clamp-value= "
     "--position-embedding-scale= "
     "--enable-mhc-connections --no-dsa-indexer-rotate-activation "
     "--no-dsa-indexer-scoring-relu --qk-clip-alpha= --qk-clip-threshold="},
    {"weights are initialized with a normal distribution",
     "--init-method-xavier-uniform --embedding-init-method-std="},
    {"all replicas start with the same weights", "--data-parallel-random-init"},
    {"mixtures of experts are not supported",
     "--moe-* --gtp-* --num-experts=1 --expert-interval= --topk= --mlp-type=standard --use-tutel "
     "--create-moe-param-group --disable-moe-token-dropping "
     "--disable-moe-top2-2nd-expert-sampling --enable-expert-tensor-parallelism "
     "--num-experts-switch= --expert-model-parallel-size=1 "
     "--expert-tensor-parallel-size=1 --overlap-moe-expert-parallel-comm "
     "--delay-wgrad-compute-for-te-grouped-gemm "
     "--expert-tensor-parallel-num-weight-shards= --ep-overlap-early-attn-memory-release "
     "--overlap-dispatch-backward-with-experts-wgrad --use-grouped-gemm-for-shared-expert "
     "--save-tokens-per-expert-interval=",
     "--num-experts"},
    {"context parallelism is not supported",
     "--context-parallel-size=1 --ds-sequence-parallel-size=1 --force-ds-sequence-parallel "
     "--ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-chunk-size= "
     "--ds-sequence-parallel-fpdt-offloading --hierarchical-context-parallel-sizes=* "
     "--max-seqlen-per-dp-cp-rank="},
    {"fp8 and fp4 are not supported: use --bf16",
     "--fp8-* --fp4-* --kitchen-* --use-kitchen --use-kitchen-attention "
     "--num-layers-at-start-in-bf16=0 --num-layers-at-end-in-bf16=0 --no-fp8-wgrad "
     "--first-last-layers-bf16 --keep-fp8-transpose-cache --reuse-grad-buf-for-mxfp8-param-ag "
     "--te-precision-config-file="},
    {"weights are not sharded over data-parallel ranks: --use-distributed-optimizer divides the "
     "optimizer state",
     "--fsdp-* --megatron-fsdp-* --enable-full-sharding-in-hsdp "
     "--suggested-communication-unit-size= --use-torch-fsdp2 --use-custom-fsdp "
     "--use-megatron-fsdp --data-parallel-sharding-strategy=no_shard "
     "--outer-dp-sharding-strategy=no_shard "
     "--torch-fsdp2-no-reshard-after-forward "
     "--tensor-parallel-num-weight-shards= --no-strict-fsdp-dtensor-load"},
    {"single tensors are not written: omit the flag",
     "--save-params-interval= --save-wgrads-interval= --save-dgrads-interval= "
     "--save-activations-interval="},
    {"use --make-vocab-size-divisible-by 1", "--no-pad-vocab-size"},
    {"distillation is not supported",
     "--kd --kd-alpha-ce= --kd-beta-ce= --kd-temp= --mos --load-teacher= --hidden-size-teacher= "
     "--num-layers-teacher= --num-attention-heads-teacher= --num-experts-teacher="},
    {"samples are not chosen by difficulty and tokens are not dropped: "
     "--curriculum-learning-type seqlen shortens the sequences",
     "--data-efficiency-curriculum-learning --random-ltd --return-data-index"},
    {"the order of the samples is computed: --data-order megatron-deepspeed is that of "
     "Megatron-DeepSpeed",
     "--train-data-exact-num-epochs= --train-desc-path= --train-doc-idx-path= --train-idx-path= "
     "--train-sample-idx-path= --train-shuffle-idx-path="},
    {"all tokens that --eod-mask-loss leaves are targets of the loss", "--norm-target-loss"},
    {"the optimizer state is always fp32",
     "--use-bnb-optimizer --main-grads-dtype=fp32 "
     "--main-params-dtype=fp32 --exp-avg-dtype=fp32 --exp-avg-sq-dtype=fp32"},
    {"the optimizer state is always on the device",
     "--overlap-cpu-optimizer-d2h-h2d --no-pin-cpu-grads --no-pin-cpu-params "
     "--optimizer-cpu-offload --optimizer-offload-fraction=0 --cpu-optimizer --cpu_torch_adam "
     "--use-torch-optimizer-for-cpu-offload --cpu-offloading-num-layers=0"},
    {"AdamW is the only optimizer", "--muon-* --lion-* --no-use-layer-wise-param-layout"},
    {"only --decoupled-lr gives weights another learning rate",
     "--head-lr-mult=1 --no-weight-decay-cond-type= "
     "--apply-wd-to-qk-layernorm --freeze-all-layers"},
    {"all tokens of a sample have the same weight in the loss",
     "--reweight-loss-based-on-position-frequency"},
    {"only --eod-mask-loss excludes tokens from the loss", "--loss-on-targets-only"},
    {"the batch size is never changed: --dry-run lists the rank counts that fit",
     "--decrease-batch-size-if-needed"},
    {"the batch size changes only by --rampup-batch-size and --step-batch-size-schedule",
     "--phase-transition-iterations= --iter-per-epoch="},
    {"lm-train does not read DeepSpeed checkpoints: convert them with lm-convert",
     "--universal-checkpoint"},
    {"a checkpoint always includes the optimizer state: lm-ckpt copy --weights-only copies without "
     "it",
     "--no-save-optim"},
    {"use --save-retain keep-last=K", "--most-recent-k="},
    {"only local is supported, as --local-save: for global use --save-interval K with "
     "--save-retain "
     "keep-last=1,keep-every=N",
     "--non-persistent-ckpt-type=local --non-persistent-global-ckpt-dir="},
    {"--local-save has one copy, on a partner host", "--replication-factor=2"},
    {"a failed run exits: start it again with --load",
     "--inprocess-* --enable-ft-package --calc-ft-timeouts --ft-num-warmup-iters="},
    {"faults of processes are not injected: --error-injection-rate plants faulty losses",
     "--fault-injector-*"},
    {"only GPT2BPETokenizer, HFTokenizer, ByteTokenizer and NullTokenizer are supported",
     "--tiktoken-* --tokenizer-sentencepiece-legacy --tokenizer-hf-no-use-fast "
     "--tokenizer-hf-no-include-special-tokens --null-tokenizer-eod-id= --special-tokens=* "
     "--chat-template= --tokenizer-special-tokens=* --metadata-path= --allow-ambiguous-pad-tokens "
     "--vocab-extra-ids=0 "
     "--sft-tokenizer-prompt-format= --tokenizer-prompt-format="},
    {"the order of samples depends on the surplus of a blend, which is always Megatron's default",
     "--mid-level-dataset-surplus=0.005"},
    {"data is read from files only",
     "--aml-data-download-path= --use-dataset-only= --s3-cache-path= --object-storage-cache-path= "
     "--enable-msc"},
    {"documents are not transformed", "--sft"},
    {"documents are not transformed",
     "--fim-data --fim-rate=0 --fim-spm-rate= --fim-split-sample= --fim-fragment-rate= "
     "--fim-no-prefix= --fim-prefix-token= --fim-middle-token= --fim-suffix-token= "
     "--fim-pad-token= --fim-eod-token= --fim-*",
     "--fim-rate"},
    {"lm-train trains GPT models only",
     "--encoder-* --bert-* --ict-* --img-* --biencoder-* --vision-* --dino-* --retro-* "
     "--retriever-* --swin-* --embedding-path= --classes-fraction= --data-per-class-fraction= "
     "--query-in-block-prob= --logits-load-* --logits-save-* --output-logit-dtype= "
     "--decoder-num-layers= --decoder-seq-length= --sample-rate= --mask-prob= "
     "--short-seq-prob= --mask-factor= --mask-type= --titles-data-path= --block-data-path= "
     "--evidence-data-path= --num-classes= --num-channels= --patch-dim= "
     "--mean-noise-span-length= --noise-density= --use-one-sent-docs --no-data-sharding"},
    {"lm-train has no inference and no reinforcement learning: lm-ckpt generate continues texts",
     "--inference-* --rl-* --grpo-* --decode-only-cuda-graphs --enable-chunked-prefill "
     "--num-speculative-tokens=0 --refit-method= --use-legacy-static-engine "
     "--flash-decode --mlp-chunks-for-prefill= --nccl-all-reduce-for-prefill "
     "--use-same-sampling-seed-across-dp-ranks "
     "--run-workload-inspector-server --inference --ds-inference --eval-only= "
     "--max-tokens-to-oom= --output-bert-embeddings --perform-rl-step --langrl-env-config="},
    {"lm-train always trains: lm-ckpt score computes the loss of a checkpoint",
     "--skip-train --no-train"},
    {"the log is on standard output and in --log-file", "--log-path="},
};

// Names of flags in scripts for Hugging Face's Trainer, nanoGPT and other programs.
constexpr Family foreign[] = {
    {"use --lr", "--learning-rate,--learning_rate="},
    {"use --micro-batch-size", "--per-device-train-batch-size,--per_device_train_batch_size="},
    {"use --global-batch-size: the number of micro-batches follows from it",
     "--gradient-accumulation-steps,--gradient_accumulation_steps="},
    {"use --train-iters", "--max-steps,--max_steps= --max-iters,--max_iters= --steps= --iters="},
    {"use --data-path", "--data= --dataset= --data-dir,--data_dir= --train-data,--train_data="},
    {"use --num-layers", "--n-layer,--n_layer= --n-layers,--n_layers="},
    {"use --num-attention-heads", "--n-head,--n_head= --num-heads,--num_heads= --heads="},
    {"use --hidden-size", "--n-embd,--n_embd= --d-model,--d_model= --dim="},
    {"use --bf16 or --fp16", "--dtype= --precision= --mixed-precision,--mixed_precision= --amp"},
    {"use --attention-dropout and --hidden-dropout", "--dropout="},
    {"use --tensor-model-parallel-size or --pipeline-model-parallel-size", "--tp= --pp="},
    {"use --train-samples or --train-tokens: the data is repeated as often as needed",
     "--epochs= --num-epochs,--num_epochs= --num-train-epochs,--num_train_epochs="},
    {"use --lr-warmup-iters", "--warmup-steps,--warmup_steps= --warmup-iters,--warmup_iters="},
    {"use --lr-warmup-fraction", "--warmup-ratio,--warmup_ratio="},
    {"use --lr-decay-style", "--lr-scheduler-type,--lr_scheduler_type="},
    {"use --clip-grad", "--max-grad-norm,--max_grad_norm= --grad-clip,--grad_clip="},
    {"use --seq-length",
     "--block-size,--block_size= --max-seq-length,--max_seq_length= --max-seq-len,--max_seq_len= "
     "--context-length= --sequence-length="},
    {"use --recompute-granularity full or selective",
     "--gradient-checkpointing,--gradient_checkpointing"},
    {"use --save", "--output-dir,--output_dir= --out-dir,--out_dir= --output= --checkpoint-dir="},
    {"use --load", "--resume= --resume-from-checkpoint,--resume_from_checkpoint="},
    {"use --save-interval", "--save-steps,--save_steps="},
    {"use --eval-interval", "--eval-steps,--eval_steps="},
    {"use --log-interval", "--logging-steps,--logging_steps="},
    {"lm-train reads no configuration file: give its values as options", "--config="},
};

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const size_t end = std::min(text.find(at), text.size());
        parts.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

// Calls declare(names, n_values, text, neutral_value, harmless_with) for each flag of the families
// that is not declared in `options` yet.
template <typename Families, typename Declare>
void add_families(const cli::Options& options, const Families& families, const Declare& declare) {
    for (const Family& family : families) {
        for (const std::string_view flag : split(family.flags, ' ')) {
            std::string names, neutral;
            int n_values = 0;
            for (std::string_view name : split(flag, ',')) {
                const size_t equals = name.find('=');
                if (equals != name.npos) {
                    n_values = name.ends_with("=*") ? -1 : 1;
                    if (n_values == 1) neutral = name.substr(equals + 1);
                }
                name = name.substr(0, equals);
                if (options.declares(name)) continue;
                names += (names.empty() ? "" : ",") + std::string(name);
            }
            // The flag that makes the others harmless has itself a neutral value.
            const bool is_key = !neutral.empty();
            if (!names.empty())
                declare(names, n_values, family.text, neutral, is_key ? "" : family.harmless_with);
        }
    }
}

}  // namespace

void add_megatron_flags(cli::Options& options, MegatronChoices& choices) {
    options.group("Other");
    if (!options.declares("--optimizer")) {
        options.choice("--optimizer", &choices.optimizer, names_in(spec::optimizers),
                       "AdamW, the only optimizer");
    }
    if (!options.declares("--dataloader-type")) {
        options.choice("--dataloader-type", &choices.dataloader, {"single"},
                       "each sample once per epoch in shuffled order, the only type");
    }
    add_families(options, accepted,
                 [&](const std::string& names, int n_values, const char* text, const std::string&,
                     const char*) { options.accepted(names, n_values, text); });
    const auto refuse = [&](const std::string& names, int n_values, const char* text,
                            const std::string& neutral, const char* harmless_with) {
        options.refused(names, n_values, text, neutral, harmless_with);
    };
    add_families(options, refused, refuse);
    add_families(options, foreign, refuse);
}

}  // namespace lm::config
