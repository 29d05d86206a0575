"""What makes a configuration small: sizes by the name that configurations give them."""

from __future__ import annotations

from typing import Any


def _by_name(sizes: dict[int, str]) -> dict[str, int]:
    return {name: size for size, names in sizes.items() for name in names.split()}


# a hidden state has 32 numbers: 4 heads of 8
SIZES = _by_name(
    {
        0: "num_nextn_predict_layers",
        1: "topk_group n_group pad_token_id decoder_start_token_id audio_channels",
        2: (
            "swa_num_key_value_heads index_n_heads linear_num_key_heads num_hidden_layers "
            "num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers "
            "num_decoder_layers depth num_blocks layers decoder_num_hidden_layers "
            "encoder_num_hidden_layers resampler_depth memory_attention_num_layers "
            "memory_fuser_num_layers pred_num_hidden_layers max_window_layers eos_token_id "
            "forced_eos_token_id num_conv_pos_embedding_groups"
        ),
        3: "bos_token_id",
        4: (
            "num_attention_heads num_heads n_head n_heads encoder_attention_heads "
            "decoder_attention_heads num_encoder_attention_heads num_decoder_attention_heads "
            "decoder_num_attention_heads attention_heads resampler_n_heads "
            "encoder_num_attention_heads num_key_value_heads encoder_num_key_value_heads "
            "decoder_num_key_value_heads swa_num_attention_heads index_topk "
            "linear_num_value_heads num_experts n_routed_experts num_local_experts "
            "moe_num_experts attention_window sep_token_id mamba_n_heads mamba_num_heads "
            "num_conv_pos_embeddings resampler_n_latents num_latents mm_tokens_per_image "
            "num_query_tokens rotary_dim coordinate_size"
        ),
        5: "image_token_id image_token_index",
        6: "video_token_id video_token_index",
        7: "audio_token_id audio_token_index",
        8: (
            "head_dim swa_head_dim kv_channels attention_head_dim resampler_head_dim d_kv d_head "
            "dim_head attention_head_size qk_nope_head_dim v_head_dim index_head_dim "
            "linear_key_head_dim linear_value_head_dim hidden_size_per_layer_input "
            "local_attention vision_start_token_id mamba_d_state ssm_state_size state_size "
            "encoder_stride num_filters relative_attention_num_buckets shape_size"
        ),
        9: "mask_token_id",
        10: "vision_end_token_id",
        12: "qk_head_dim",
        16: (
            "kv_lora_rank q_lora_rank codebook_size num_mel_bins mamba_d_head mamba_head_dim "
            "subsampling_conv_channels image_seq_length num_image_tokens upsample_initial_channel"
        ),
        20: "entity_vocab_size",
        32: (
            "hidden_size d_model n_embd embed_dim dim hidden_dim encoder_hidden_size "
            "decoder_hidden_size embedding_size word_embed_proj_dim output_dim projection_dim "
            "emb_dim embedding_dim out_hidden_size output_hidden_size text_hidden_size "
            "pooler_output_size classifier_proj_size projector_hidden_size hidden_size_global "
            "encoder_hidden_dim fusion_hidden_size backbone_hidden_size attention_hidden_size "
            "entity_emb_size fpn_hidden_size memory_attention_hidden_size "
            "memory_encoder_hidden_size patch_embed_hidden_size vision_hidden_size lru_width "
            "head_hidden_size mask_feature_size pretrain_image_size mamba_d_ssm d_latents"
        ),
        64: (
            "intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff mlp_dim d_inner "
            "moe_intermediate_size shared_expert_intermediate_size decoder_intermediate_size "
            "dim_feedforward ffn_hidden_size shared_intermediate_size "
            "moe_shared_expert_intermediate_size encoder_feedforward_dim dense_intermediate_size "
            "intermediate_size_mlp expert_ffn_hidden_size max_source_positions "
            "max_target_positions max_2d_position_embeddings num_position_embeddings"
        ),
        99: (
            "vocab_size text_vocab_size audio_vocab_size decoder_vocab_size "
            "vocab_size_per_layer_input"
        ),
        128: "n_positions n_ctx max_seq_len",
    }
)
"""Name of an argument -> what it is set to."""

AT_MOST = _by_name(
    {
        1: "first_k_dense_replace",
        2: "tubelet_size num_experts_per_tok moe_topk moe_k",
        4: "qk_rope_head_dim num_frames type_vocab_size window_size",
        5: "conv_kernel_size",
        8: "sliding_window num_queries",
        16: "stem_channels",
        32: "image_size",
        64: "context_length",
        128: "max_position_embeddings",
    }
)
"""Name of an argument -> the largest that it may be."""

# Of an argument that is a list with an element a stage:
ALIKE = _by_name(
    {
        1: "depths blocks_per_stage stage_num_blocks",
        2: "mlp_ratios",
        16: "conv_dim",
        32: "image_size",
    }
)
"""its name -> every element;"""
DOUBLING = _by_name(
    {
        2: "num_heads num_attention_heads num_attention_heads_per_stage",
        16: "hidden_sizes embed_dims embed_dim embed_dim_per_stage",
    }
)
"""its name -> the first element, each of the others being twice the one before."""

# the last two layers read the keys and values that the second and the fourth make
_SLIDING, _FULL = "sliding_attention", "full_attention"
_SHARING = {
    "num_hidden_layers": 6,
    "num_kv_shared_layers": 2,
    "layer_types": [_SLIDING, _SLIDING, _FULL, _FULL, _SLIDING, _FULL],
}
_WINDOWED = {"image_size": 64, "window_size": 2, "patch_size": 4}
OVERRIDES: dict[str, dict[str, Any]] = {
    "mpnet": {"relative_attention_num_buckets": 32},  # its code counts on it
    # with its own norm, which divides by nothing, no head of random weights has any influence
    "mobilebert": {"normalization_type": "layer_norm"},
    # block-sparse, they exchange their attention for good where a text is short
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "sam3_tracker_video": {"image_size": 32},  # which its configuration takes without naming it
    **dict.fromkeys(("gemma3n_text", "gemma4_text", "gemma4_unified_text"), _SHARING),
    **{name: {"text_config": _SHARING} for name in ("gemma3n", "gemma4", "gemma4_unified")},
    **dict.fromkeys(("swin", "swinv2", "donut-swin", "maskformer-swin", "swin2sr"), _WINDOWED),
}
